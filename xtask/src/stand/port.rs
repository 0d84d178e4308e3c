//! A free port of this machine, for a server that may be restarted.

use std::iter;
use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;

/// Below the ports that a system gives to clients: a client that knocks while its server is away
/// could be given that very port, and be connected to itself.
const LOWEST: u32 = 20_000;
const COUNT: u32 = 10_000;

/// A port that this program has not had yet: a server that is being restarted does not hold its own.
pub(super) fn free() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = || candidate(process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let mut candidates = iter::repeat_with(next).take(COUNT as usize);
    Ok(candidates
        .find(|port| is_free(*port))
        .ok_or("no port of 127.0.0.1 is free")?)
}

/// Every port of the range in turn, in an order that differs between processes.
fn candidate(process: u32, number: u32) -> u16 {
    let offset = (process % COUNT + number % COUNT) % COUNT;
    u16::try_from(LOWEST + offset).unwrap_or_default()
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_port_of_the_range_is_tried_once() {
        for process in [0, 1, 9_999, 10_000, u32::MAX] {
            let ports: BTreeSet<u16> = (0..COUNT).map(|n| candidate(process, n)).collect();
            assert_eq!(ports.len(), 10_000);
            assert_eq!(
                (ports.first(), ports.last()),
                (Some(&20_000), Some(&29_999))
            );
        }
        assert_ne!(candidate(1, u32::MAX), candidate(2, u32::MAX));
    }

    #[test]
    fn a_port_that_is_taken_is_passed_and_none_is_given_twice() {
        let port = free().unwrap();
        assert!(is_free(port));
        assert_ne!(free().unwrap(), port);
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!is_free(port));
        drop(taken);
    }
}
