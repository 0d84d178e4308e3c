//! A private server that is one process and keeps nothing: in a temporary folder, on a port of
//! 127.0.0.1, ended and started by a script there.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{Running, find, port};
use crate::{Result, command};

/// What differs between servers of this kind.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    /// Its arguments up to the port's number, which is the last one.
    pub(super) arguments: &'static [&'static str],
    /// Of its URL.
    pub(super) scheme: &'static str,
    /// What a client sends to learn whether the server answers.
    pub(super) ask: &'static str,
    /// How the first line that a client receives begins.
    pub(super) answer: &'static str,
}

#[derive(Debug)]
struct Process {
    scheme: &'static str,
    port: u16,
    folder: TempDir,
}

impl Program {
    /// A folder that the shell looks in, or one of those that it looks in for root alone.
    pub(super) fn find(&self) -> Option<PathBuf> {
        let path = env::var_os("PATH").unwrap_or_default();
        let roots = ["/usr/local/sbin", "/usr/sbin"].map(PathBuf::from);
        find::folder_with(&[self.name], env::split_paths(&path).chain(roots))
    }

    pub(super) fn start(&self, binaries: &Path) -> Result<Box<dyn Running>> {
        let process = Process {
            scheme: self.scheme,
            port: port::free()?,
            folder: tempfile::Builder::new()
                .prefix(&format!("outbox-{}-", self.name))
                .tempdir()?,
        };
        fs::write(process.script(), self.script(binaries, process.port))?;
        process.run("restart")?;
        Ok(Box::new(process))
    }

    fn script(&self, binaries: &Path, port: u16) -> String {
        let server = binaries.join(self.name).display().to_string();
        let words = [server.as_str()].into_iter();
        let words = words.chain(self.arguments.iter().copied());
        let words: Vec<_> = words.map(command::quoted).collect();
        let (words, ask, answer) = (
            words.join(" "),
            command::quoted(self.ask),
            command::quoted(self.answer),
        );
        let lines = include_str!("process.sh");
        format!("server=({words} {port})\nport={port}\nask={ask}\nanswer={answer}\n\n{lines}")
    }
}

impl Running for Process {
    fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    fn restart(&self) -> String {
        let script = self.script().display().to_string();
        format!("bash {} restart", command::quoted(&script))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.run("stop") {
            eprintln!("{} was not stopped: {error}", self.url());
        }
    }
}

impl Process {
    fn script(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    /// In a group of its own: a Ctrl-C in between would leave a server behind.
    fn run(&self, action: &str) -> Result<String> {
        let mut bash = Command::new("bash");
        bash.arg(self.script()).arg(action).process_group(0);
        command::run(&mut bash)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpStream;

    use super::*;

    /// Ends by no request; tells each client that asks its process and group, and keeps the connection.
    const SERVER: &str = r#"
        $SIG{TERM} = $SIG{INT} = "IGNORE";
        my %all = (Listen => 5, LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], ReuseAddr => 1);
        my $server = IO::Socket::INET->new(%all) or die $@;
        while (my $client = $server->accept) {
            push @open, $client;
            print $client "$$ @{[getpgrp]}\n" if <$client> eq "it's\n";
        }
    "#;

    fn perl(code: &'static str) -> Result<Box<dyn Running>> {
        let perl = Program {
            name: "perl",
            arguments: Box::leak(Box::new(["-MIO::Socket::INET", "-e", code])),
            scheme: "fake",
            ask: "it's\n",
            answer: "",
        };
        perl.start(&perl.find().unwrap())
    }

    fn address(running: &dyn Running) -> String {
        running.url().strip_prefix("fake://").unwrap().to_owned()
    }

    fn connect(running: &dyn Running) -> (String, BufReader<TcpStream>) {
        let mut stream = TcpStream::connect(address(running)).unwrap();
        stream.write_all(b"it's\n").unwrap();
        let (mut answer, mut stream) = (String::new(), BufReader::new(stream));
        stream.read_line(&mut answer).unwrap();
        (answer, stream)
    }

    #[test]
    fn a_server_answers_again_on_its_port_after_a_restart_and_ends_with_its_handle() {
        let running = perl(SERVER).unwrap();
        let (first, mut open) = connect(running.as_ref());
        let restart = running.restart();
        command::run(Command::new("sh").args(["-c", &restart])).unwrap();
        assert_eq!(open.read(&mut [0]).unwrap(), 0);
        let (second, mut open) = connect(running.as_ref());
        assert_ne!(first, second);
        for answer in [first, second] {
            let (process, group) = answer.trim_end().split_once(' ').unwrap();
            assert_eq!(process, group);
        }

        let folder = restart.split(' ').nth(1).map(Path::new).unwrap();
        let folder = folder.parent().unwrap();
        assert!(folder.is_dir());
        let address = address(running.as_ref());
        drop(running);
        assert_eq!(open.read(&mut [0]).unwrap(), 0);
        assert!(TcpStream::connect(address).is_err());
        assert!(!folder.exists());
    }

    #[test]
    fn a_server_that_ends_at_once_leaves_its_own_words() {
        let why = perl("die 'its own words'").unwrap_err().to_string();
        assert!(why.contains("\nit ended\nits own words at "), "{why}");
    }
}
