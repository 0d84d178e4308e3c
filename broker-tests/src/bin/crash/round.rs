//! A round: a publisher and a receiver under load, what goes wrong, and what is there after it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use broker_tests::{Broker, Database, Result, Stand};
use outbox_core::SWITCH_VARIABLE;
use tokio::process::Command;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use uuid::Uuid;

use crate::count::Count;
use crate::name;
use crate::plan::{Event, Plan, Role};
use crate::process::{PATIENCE, Process};

/// How many numbers an instance of the publisher has.
const NUMBERS: u64 = 1_000_000;

/// Records that are open, and none of which is closed for so long, stay open.
const STANDSTILL: Duration = Duration::from_secs(3);

/// How long the clients of a Redis may take to be back after a restart.
const RECONNECT: Duration = Duration::from_secs(1);

/// A round under way.
pub(crate) struct Round<'a> {
    stand: Stand,
    broker: Broker,
    database: &'a Database,
    plan: &'a Plan,
    /// Of the logs.
    folder: &'a Path,
    /// What the registered names begin with.
    prefix: String,
    /// How many processes were started.
    started: u64,
    failed_starts: usize,
    further_starts: usize,
    /// When the broker was last started again.
    broker_restarted: Option<Instant>,
}

impl<'a> Round<'a> {
    pub(crate) fn new(
        stand: Stand,
        broker: Broker,
        database: &'a Database,
        plan: &'a Plan,
        folder: &'a Path,
    ) -> Self {
        Self {
            stand,
            broker,
            database,
            plan,
            folder,
            prefix: format!("c{}", Uuid::new_v4().simple()),
            started: 0,
            failed_starts: 0,
            further_starts: 0,
            broker_restarted: None,
        }
    }

    pub(crate) async fn run(mut self) -> Result<Count> {
        let mut receiver = self.start(Role::Receiver, None)?;
        let mut publisher = self.start(Role::Publisher, None)?;
        for event in &self.plan.events {
            match event {
                Event::Kill(role, after) => {
                    sleep(*after).await;
                    let victim = either(*role, &mut publisher, &mut receiver);
                    victim.kill().await?;
                    sleep(self.plan.away).await;
                    *victim = self.start(*role, None)?;
                }
                Event::Crash(role, point, times) => {
                    let victim = either(*role, &mut publisher, &mut receiver);
                    self.end(victim).await?;
                    *victim = self.start(*role, Some(format!("{point}@{times}")))?;
                    victim.crashed().await?;
                    sleep(self.plan.away).await;
                    *victim = self.start(*role, None)?;
                }
                Event::Broker(after) | Event::Database(after) => {
                    sleep(*after).await;
                    restart(self.server(event)).await?;
                    if matches!(event, Event::Broker(_)) {
                        self.broker_restarted = Some(Instant::now());
                    }
                    self.start_again(Role::Publisher, &mut publisher).await?;
                    self.start_again(Role::Receiver, &mut receiver).await?;
                }
            }
        }
        sleep(self.plan.rest).await;

        self.end(&mut publisher).await?;
        let closed = timeout(PATIENCE * 2, self.close_all(receiver)).await;
        closed.map_err(|_| "there are open records again and again")??;
        let mut count = Count::of(&fs::read_to_string(self.log())?)?;
        count.failed_starts = self.failed_starts;
        count.further_starts = self.further_starts;
        Ok(count)
    }

    /// Sends again what is open, and ends the receiver, until nothing is open: a handler that is at
    /// work may publish until its process has ended.
    async fn close_all(&mut self, mut receiver: Process) -> Result {
        loop {
            if self.plan.last == Role::Receiver {
                self.end(&mut receiver).await?;
                receiver = self.start(Role::Receiver, None)?;
            } else {
                let mut resender = self.start(Role::Resender, None)?;
                self.end(&mut resender).await?;
            }
            receiver.has_started().await?;
            let open = self.rest().await?;
            if open > 0 && self.further_starts == self.most_further_starts() {
                return Err(format!("{open} records stay open").into());
            }
            if open > 0 {
                self.further_starts += 1;
                continue;
            }
            self.end(&mut receiver).await?;
            if self.database.open().await? == 0 {
                return Ok(());
            }
            receiver = self.start(Role::Receiver, None)?;
        }
    }

    /// A Redis subscription drops what its buffer does not hold: what is sent again, too.
    const fn most_further_starts(&self) -> usize {
        match self.broker {
            Broker::Redis => 3,
            Broker::Nats => 0,
        }
    }

    /// How many records stay open.
    async fn rest(&self) -> Result<i64> {
        let mut open = self.database.open().await?;
        let mut since = Instant::now();
        while open > 0 && since.elapsed() < STANDSTILL {
            sleep(Duration::from_millis(10)).await;
            let now = self.database.open().await?;
            if now != open {
                (open, since) = (now, Instant::now());
            }
        }
        Ok(open)
    }

    /// A start that met a server that was away may have failed. The next one may not.
    async fn start_again(&mut self, role: Role, process: &mut Process) -> Result {
        if !process.has_started().await? {
            self.failed_starts += 1;
            *process = self.start(role, None)?;
        }
        Ok(())
    }

    /// Asks a process to end in order. The shutdown of a Redis client may hang while its connection
    /// comes back.
    async fn end(&self, process: &mut Process) -> Result {
        if let (Broker::Redis, Some(restarted)) = (self.broker, self.broker_restarted) {
            sleep_until(restarted + RECONNECT).await;
        }
        process.end().await
    }

    fn start(&mut self, role: Role, crash_at: Option<String>) -> Result<Process> {
        let number = self.started * NUMBERS;
        self.started += 1;
        let mut command = Command::new(env::current_exe()?.with_file_name("node"));
        command.args(["--role", role.name()]);
        command.args(["--stand", &name(&self.stand)]);
        command.args(["--broker", &name(&self.broker)]);
        command.args(["--database", self.database.url()]);
        command.args(["--prefix", &self.prefix]);
        command.args(["--number", &number.to_string()]);
        command.arg("--log").arg(self.log());
        command.env(SWITCH_VARIABLE, "on");
        if let Some(point) = crash_at {
            command.env("OUTBOX_CRASH_AT", point);
        }
        let file = format!("{}-{}.err", self.started, role.name());
        Process::start(command, role.name(), self.folder.join(file))
    }

    /// The file of what the processes did.
    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The variable with the command that restarts a server.
    fn server(&self, event: &Event) -> &'static str {
        match (event, self.broker) {
            (Event::Database(_), _) => "OUTBOX_POSTGRES_CTL",
            (_, Broker::Redis) => "OUTBOX_REDIS_CTL",
            (_, Broker::Nats) => "OUTBOX_NATS_CTL",
        }
    }
}

fn either<'a>(
    role: Role,
    publisher: &'a mut Process,
    receiver: &'a mut Process,
) -> &'a mut Process {
    match role {
        Role::Receiver => receiver,
        Role::Publisher | Role::Resender => publisher,
    }
}

/// Kills a server, starts it again, and waits until it answers.
async fn restart(variable: &str) -> Result {
    let control = env::var(variable);
    let control = control.map_err(|_| format!("{variable} is not set"))?;
    let mut shell = Command::new("sh");
    let shell = shell.arg("-c").arg(control).kill_on_drop(true).output();
    let done = timeout(PATIENCE, shell).await;
    let done = done.map_err(|_| format!("${variable} hangs"))??;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("${variable} failed, {}: {said}", done.status).into());
    }
    Ok(())
}
