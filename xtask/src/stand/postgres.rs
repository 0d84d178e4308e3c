//! A private Postgres: a cluster in a temporary folder, on a port of 127.0.0.1.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::account::Account;
use super::{Running, find, port};
use crate::{Result, command};

#[derive(Debug)]
struct Cluster {
    binaries: PathBuf,
    account: Option<Account>,
    folder: TempDir,
    port: u16,
}

/// The folder that `pg_config` names, a folder of Debian's, or one that the shell looks in.
pub(super) fn find() -> Option<PathBuf> {
    let told = command::output(Path::new("/"), "pg_config", &["--bindir"]);
    let told = told.ok().map(|folder| PathBuf::from(folder.trim()));
    let versions = find::versions(Path::new("/usr/lib/postgresql"));
    let path = env::var_os("PATH").unwrap_or_default();
    let candidates = told.into_iter().chain(versions);
    find::folder_with(
        &["initdb", "pg_ctl", "postgres"],
        candidates.chain(env::split_paths(&path)),
    )
}

pub(super) fn start(binaries: &Path) -> Result<Box<dyn Running>> {
    let cluster = Cluster {
        binaries: binaries.to_owned(),
        account: Account::for_root("postgres")?,
        folder: tempfile::Builder::new()
            .prefix("outbox-postgres-")
            .tempdir()?,
        port: port::free()?,
    };
    if let Some(account) = &cluster.account {
        chown(
            cluster.folder.path(),
            Some(account.user),
            Some(account.group),
        )?;
    }
    cluster.run(&cluster.initdb())?;
    let settings = cluster.data().join("postgresql.conf");
    let mut settings = OpenOptions::new().append(true).open(settings)?;
    settings.write_all(cluster.settings().as_bytes())?;
    cluster.run(&cluster.pg_ctl("start")).map_err(|error| {
        let log = fs::read_to_string(cluster.log()).unwrap_or_default();
        format!("{error}\n{log}")
    })?;
    Ok(Box::new(cluster))
}

impl Running for Cluster {
    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn restart(&self) -> String {
        let words = self.pg_ctl("restart");
        let words: Vec<_> = words.iter().map(|word| command::quoted(word)).collect();
        let folder = self.folder.path().display().to_string();
        format!("cd {} && {}", command::quoted(&folder), words.join(" "))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // There is no such file where it was not started.
        if self.data().join("postmaster.pid").exists()
            && let Err(error) = self.run(&self.pg_ctl("stop"))
        {
            eprintln!("Postgres was not stopped: {error}");
        }
    }
}

impl Cluster {
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn initdb(&self) -> Vec<String> {
        let options = "--auth=trust --username=postgres --encoding=UTF8 --locale=C --no-sync";
        let mut words = self.program("initdb");
        words.extend(options.split(' ').map(str::to_owned));
        words.extend(["-D".to_owned(), self.data().display().to_string()]);
        words
    }

    /// Each test has pools of its own, and a machine of many cores runs many tests.
    fn settings(&self) -> String {
        format!(
            "listen_addresses = '127.0.0.1'\nport = {}\n\
             unix_socket_directories = ''\nmax_connections = 500\n",
            self.port
        )
    }

    /// It detaches the server from this program's terminal, and waits for it.
    fn pg_ctl(&self, action: &str) -> Vec<String> {
        let mut words = self.program("pg_ctl");
        let (data, log) = (self.data(), self.log());
        let (data, log) = (data.display().to_string(), log.display().to_string());
        words.extend([action, "-D", &data, "-l", &log].map(str::to_owned));
        words.extend(["-m", "immediate", "-w", "-t", "60"].map(str::to_owned));
        words
    }

    fn program(&self, name: &str) -> Vec<String> {
        let prefix = self.account.iter().flat_map(Account::prefix);
        let program = self.binaries.join(name).display().to_string();
        prefix.chain([program]).collect()
    }

    /// In a group of its own: a Ctrl-C in between would leave a server behind.
    fn run(&self, words: &[String]) -> Result<String> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).process_group(0);
        command::run(command.current_dir(self.folder.path()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(account: Option<Account>) -> Cluster {
        Cluster {
            binaries: PathBuf::from("bin"),
            account,
            folder: tempfile::Builder::new().prefix("it's-").tempdir().unwrap(),
            port: 20_001,
        }
    }

    #[test]
    fn the_restart_is_hard_and_survives_the_shell() {
        let cluster = cluster(None);
        let folder = cluster.folder.path().display().to_string();
        let (cd, pg_ctl) = (
            command::quoted(&folder),
            command::quoted(&format!("{folder}/data")),
        );
        let expected = format!("cd {cd} && bin/pg_ctl restart -D {pg_ctl} ");
        let restart = cluster.restart();
        assert!(restart.starts_with(&expected), "{restart}");
        assert!(restart.ends_with(" -m immediate -w -t 60"), "{restart}");
    }

    #[test]
    fn root_lends_the_cluster_to_another_account() {
        let account = Account {
            user: 101,
            group: 104,
        };
        let words = cluster(Some(account)).initdb().join(" ");
        let prefix = "setpriv --reuid=101 --regid=104 --clear-groups bin/initdb ";
        assert!(words.starts_with(prefix), "{words}");
    }

    #[test]
    fn a_server_listens_on_this_machine_alone() {
        let settings = cluster(None).settings();
        assert!(settings.contains("listen_addresses = '127.0.0.1'\nport = 20001\n"));
        assert!(settings.contains("unix_socket_directories = ''\n"));
    }
}
