//! What the figures were measured on: cores and kernel, and nothing that names the machine.

use std::fs;
use std::thread;

pub(crate) fn describe() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = release.split('-').next().unwrap_or_default().trim();
    format!("{cores} cores, Linux {version}")
}
