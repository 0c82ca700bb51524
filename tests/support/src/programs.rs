//! The server programs of this machine, and the user that they run as.

use std::{
    env, fs,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::ServerError;

/// A folder with `postgres` and `initdb`, and whom to run them as.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    bin: PathBuf,
    account: Option<Account>,
}

/// Postgres refuses to run as root, so root lends it to somebody.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Programs {
    /// The first that works: `bin` or `IDEM_PG_BIN` and nothing else where one is given; then the folders of
    /// `PATH`; then the newest of Debian's and Homebrew's folders.
    pub(crate) fn find(bin: Option<PathBuf>) -> Result<Self, ServerError> {
        let given = bin.or_else(|| env::var_os("IDEM_PG_BIN").map(PathBuf::from));
        let folders = given.map_or_else(usual_folders, |bin| vec![bin]);
        let account = Account::if_root();
        let works = |bin: &PathBuf| Self { bin: bin.clone(), account }.work();
        match folders.iter().find(|bin| works(bin)) {
            Some(bin) => Ok(Self { bin: bin.clone(), account }),
            None => Err(ServerError::NoPrograms { looked: format!("looked in {folders:?}") }),
        }
    }

    /// Runs `program` without input, in `folder`, as the user that may.
    pub(crate) fn command(&self, program: &str, folder: &Path) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.current_dir(folder).stdin(Stdio::null());
        if let Some(Account { uid, gid }) = self.account {
            command.uid(uid).gid(gid);
        }
        command
    }

    pub(crate) fn account(&self) -> Option<Account> {
        self.account
    }

    /// Whether both programs start at all for that user: a folder under `/root` does not let others in.
    fn work(&self) -> bool {
        ["postgres", "initdb"].iter().all(|program| {
            self.command(program, Path::new("/"))
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        })
    }
}

impl Account {
    fn if_root() -> Option<Self> {
        let own_files_belong_to = fs::metadata("/proc/self").ok()?.uid();
        if own_files_belong_to != 0 {
            return None;
        }
        let users = fs::read_to_string("/etc/passwd").ok()?;
        Self::named("postgres", &users).or_else(|| Self::named("nobody", &users))
    }

    fn named(name: &str, users: &str) -> Option<Self> {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some(Self { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    }
}

fn usual_folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = env::split_paths(&path).filter(|dir| dir.join("initdb").exists()).collect();
    let mut versions: Vec<(u32, PathBuf)> = ["/usr/lib/postgresql", "/opt/homebrew/opt", "/usr/local/opt"]
        .iter()
        .filter_map(|parent| fs::read_dir(parent).ok())
        .flatten()
        .filter_map(|entry| {
            let name = entry.as_ref().ok()?.file_name();
            let version = name.to_str()?.trim_start_matches("postgresql@").parse().ok()?;
            Some((version, entry.ok()?.path().join("bin")))
        })
        .collect();
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    folders.extend(versions.into_iter().map(|(_, bin)| bin));
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_read_from_the_password_file() {
        let users = "root:x:0:0:root:/root:/bin/bash\npostgresql:x:7:7::/:/bin/sh\npostgres:x:101:104:,,,:/:/bin/bash\n";
        let account = Account::named("postgres", users).unwrap();
        assert_eq!((account.uid, account.gid), (101, 104));
        assert!(Account::named("nobody", users).is_none());
    }

    #[test]
    fn a_folder_without_programs_is_named_in_the_error() {
        let error = Programs::find(Some(PathBuf::from("/nowhere/bin"))).unwrap_err();
        assert!(error.to_string().contains("/nowhere/bin"), "{error}");
    }
}
