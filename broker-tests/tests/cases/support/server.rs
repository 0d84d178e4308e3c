//! A private server, started from the installed binary, for a test that ends it.

use std::env;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{self, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use broker_tests::{Broker, Error, Result};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};

use super::soon;

/// The ports of these servers: below the ones that a system gives to clients.
const LOWEST: u32 = 30_000;
const COUNT: u32 = 2_700;

/// Ended with the value, or before.
pub(crate) struct Server {
    broker: Broker,
    binary: PathBuf,
    port: u16,
    process: Child,
}

impl Server {
    pub(crate) async fn start(broker: Broker) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let binary = find(broker)?;
        let mut failed = Error::from("no port of 127.0.0.1 is free");
        for _ in 0..20 {
            let next = process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
            let port = u16::try_from(LOWEST + next % COUNT)?;
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err() {
                continue;
            }
            match spawn(broker, &binary, port).await {
                Ok(process) => {
                    return Ok(Self {
                        broker,
                        binary,
                        port,
                        process,
                    });
                }
                // Somebody else may have taken the port meanwhile.
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    pub(crate) fn url(&self) -> String {
        let scheme = match self.broker {
            Broker::Redis => "redis",
            Broker::Nats => "nats",
        };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// Ends the server as a crash does.
    pub(crate) async fn kill(&mut self) -> Result {
        Ok(self.process.kill().await?)
    }

    /// Starts it again, on its port.
    pub(crate) async fn restart(&mut self) -> Result {
        self.process = spawn(self.broker, &self.binary, self.port).await?;
        Ok(())
    }
}

const fn program(broker: Broker) -> &'static str {
    match broker {
        Broker::Redis => "redis-server",
        Broker::Nats => "nats-server",
    }
}

/// In a folder that the shell looks in, or in one that it looks in for root alone.
fn find(broker: Broker) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/local/sbin".into(), "/usr/sbin".into()]);
    let mut binaries = folders.map(|folder| folder.join(program(broker)));
    let found = binaries.find(|binary| binary.is_file());
    let program = program(broker);
    found.ok_or_else(|| {
        format!(
            "no {program} is installed: this test ends a server of its own, so run \
             `apt-get install {program}`"
        )
        .into()
    })
}

/// Starts a server, and returns when it says that it is ready.
async fn spawn(broker: Broker, binary: &PathBuf, port: u16) -> Result<Child> {
    let mut command = Command::new(binary);
    let ready = match broker {
        Broker::Redis => {
            command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
            "Ready to accept connections"
        }
        Broker::Nats => {
            command.args(["--addr", "127.0.0.1"]);
            "Server is ready"
        }
    };
    command.args(["--port", &port.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = command.stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
    let log: Box<dyn AsyncRead + Send + Unpin> = match broker {
        Broker::Redis => Box::new(process.stdout.take().ok_or("no output")?),
        Broker::Nats => Box::new(process.stderr.take().ok_or("no output")?),
    };
    let (mut log, mut said) = (BufReader::new(log).lines(), String::new());
    while let Some(line) = soon("a server's start", log.next_line()).await?? {
        if line.contains(ready) {
            // A server that cannot write its log may end.
            tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
            return Ok(process);
        }
        said.push_str(&line);
        said.push('\n');
    }
    Err(format!("{} ended: {said}", program(broker)).into())
}
