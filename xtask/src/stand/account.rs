//! Who runs a server that root may not run.

use std::fs;
use std::path::Path;

use crate::{Result, command};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) user: u32,
    pub(super) group: u32,
}

impl Account {
    /// For root, `owner` or else `nobody`. Anyone else is who they are: `None`.
    pub(super) fn for_root(owner: &str) -> Result<Option<Self>> {
        if !is_root()? {
            return Ok(None);
        }
        let accounts = fs::read_to_string("/etc/passwd")?;
        let mut names = [owner, "nobody"].into_iter();
        let found = names.find_map(|name| Self::named(name, &accounts));
        match found {
            Some(account) => Ok(Some(account)),
            None => Err(
                format!("root may not run it, and there is no user {owner} and no nobody").into(),
            ),
        }
    }

    fn named(name: &str, accounts: &str) -> Option<Self> {
        accounts.lines().find_map(|line| {
            // `name:password:user:group:..`
            let mut fields = line.split(':');
            (fields.next()? == name).then_some(())?;
            let mut numbers = fields.skip(1).map(str::parse);
            let user = numbers.next()?.ok()?;
            let group = numbers.next()?.ok()?;
            Some(Self { user, group })
        })
    }

    /// What stands before a command that this account runs.
    pub(super) fn prefix(&self) -> [String; 4] {
        [
            "setpriv".to_owned(),
            format!("--reuid={}", self.user),
            format!("--regid={}", self.group),
            "--clear-groups".to_owned(),
        ]
    }
}

pub(super) fn is_root() -> Result<bool> {
    let user = command::output(Path::new("/"), "id", &["-u"])?;
    Ok(user.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNTS: &str = "root:x:0:0:root:/:/bin/sh\n\
         post:x:1:1::/:/bin/sh\n\
         postgres:x:101:104:PostgreSQL administrator,,,:/var/lib:/bin/bash\n\
         nobody:x:65534:65533:nobody:/:/sbin/nologin\n\
         broken:x:a\n";

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let found = |name: &str| Account::named(name, ACCOUNTS);
        let postgres = Account {
            user: 101,
            group: 104,
        };
        assert_eq!(found("postgres"), Some(postgres));
        assert_eq!(found("nobody").unwrap().group, 65533);
        assert_eq!(found("broken"), None);
        assert_eq!(found("absent"), None);
    }

    #[test]
    fn a_command_is_run_without_the_rights_of_root() {
        let account = Account::named("postgres", ACCOUNTS).unwrap();
        assert_eq!(
            account.prefix().join(" "),
            "setpriv --reuid=101 --regid=104 --clear-groups"
        );
    }
}
