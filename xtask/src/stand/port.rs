//! A free port of this machine, for a server that may be restarted.

use std::net::{Ipv4Addr, TcpListener};
use std::process;

use crate::Result;

/// Below the ports that a system gives to clients: a client that knocks while its server is away
/// could be given that very port, and be connected to itself.
const LOWEST: u16 = 20_000;
const COUNT: u16 = 10_000;

pub(super) fn free() -> Result<u16> {
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let free = candidates(process::id()).find(is_free);
    Ok(free.ok_or("no port of 127.0.0.1 is free")?)
}

/// Every port of the range, in an order that differs between processes.
fn candidates(process: u32) -> impl Iterator<Item = u16> {
    let first = u16::try_from(process % u32::from(COUNT)).unwrap_or_default();
    (0..COUNT).map(move |next| LOWEST + (first + next) % COUNT)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_port_of_the_range_is_tried_once() {
        for process in [0, 1, 9_999, 10_000, u32::MAX] {
            let ports: BTreeSet<u16> = candidates(process).collect();
            assert_eq!(ports.len(), usize::from(COUNT));
            assert_eq!(ports.first(), Some(&LOWEST));
        }
        assert_ne!(candidates(1).next(), candidates(2).next());
    }

    #[test]
    fn a_port_that_is_taken_is_passed() {
        let port = free().unwrap();
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_ne!(free().unwrap(), port);
        drop(taken);
    }
}
