//! The files of the demo, in a temporary folder that goes away with it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use tempfile::TempDir;

use crate::error::Error;

/// The folder that every instance of the service works in.
pub(super) struct Folder(TempDir);

impl Folder {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    /// The URL of the database.
    pub(super) fn database(&self) -> String {
        format!("sqlite://{}", self.0.path().join("payments.db").display())
    }

    /// The handlers' own log.
    pub(super) fn shipments(&self) -> PathBuf {
        self.0.path().join("shipped.log")
    }

    /// How often each order was shipped.
    pub(super) fn shipped(&self) -> Result<BTreeMap<u64, u32>, Error> {
        let log = match fs::read_to_string(self.shipments()) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            log => log?,
        };
        let mut shipped = BTreeMap::new();
        for line in log.lines() {
            *shipped.entry(line.parse()?).or_default() += 1;
        }
        Ok(shipped)
    }

    /// What an instance writes its errors to.
    pub(super) fn stderr(&self) -> io::Result<File> {
        let path = self.0.path().join("service.log");
        OpenOptions::new().create(true).append(true).open(path)
    }

    /// What the instances wrote there.
    pub(super) fn service_log(&self) -> String {
        let path = self.0.path().join("service.log");
        fs::read_to_string(path).unwrap_or_default()
    }
}
