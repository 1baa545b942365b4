// SPDX-License-Identifier: Apache-2.0
//! A PostgreSQL server that is no part of Torno, outside: Debian's, on loopback, with TLS by a
//! certificate of its own authority and SCRAM-SHA-256 as the only way in.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use torno_stage::world::authority::Authority;

/// Its name.
pub(super) const HOST: &str = "db.torno.test";
/// Where Debian puts the programs of a version.
const PROGRAMS: &str = "/usr/lib/postgresql";
/// The user that Debian's package makes; the server refuses to run as root.
const SERVER_USER: &str = "postgres";

/// Tables that a role may read, one that it may not, the stored password, and functions that do
/// behind the words of a statement what the words don't say.
const WORLD: &str = r#"
create role app login password '@PASSWORD@';
create role reader;
grant reader to app;
create database shop owner app;
\c shop
set role app;
create table items (id int primary key, name text);
insert into items values (1, 'one'), (2, 'two');
create table private (v text);
create table leaks (v text, b bytea, n int);
insert into leaks values ('it is @PASSWORD@!', '@PASSWORD@', null);
grant select on items, leaks to reader;
create function sneak() returns int language plpgsql as
    $$ begin insert into items values (99, 'sneaked'); return 1; end $$;
create function undo() returns text language plpgsql as
    $$ begin return set_config('default_transaction_read_only', 'off', false); end $$;
create function unquote() returns text language plpgsql as
    $$ begin return set_config('standard_conforming_strings', 'off', false); end $$;
create function unrole() returns text language plpgsql as
    $$ begin return set_config('role', 'none', false); end $$;
create function fold_undo() returns text immutable language plpgsql as
    $$ begin return undo(); end $$;
create function fold_sneak() returns int immutable language plpgsql as
    $$ begin return sneak(); end $$;
"#;

/// The server, until it is dropped.
pub(super) struct FarEnd {
    server: Child,
    directory: tempfile::TempDir,
    programs: PathBuf,
    port: u16,
    admin: String,
    ca: PathBuf,
}

/// The newest version's programs, where they are installed.
pub(super) fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(PROGRAMS).ok()?.flatten();
    let programs = versions.map(|version| version.path().join("bin"));
    programs.filter(|bin| bin.join("postgres").exists()).max()
}

impl FarEnd {
    /// Starts one that knows the user `app` by this password. Its authority's certificate, which
    /// the operator trusts, lies where nobody else writes.
    pub(super) fn start(password: &str, outside: &Path) -> Self {
        let programs = programs().unwrap();
        let directory = tempfile::Builder::new()
            .prefix("torno-pg-")
            .tempdir()
            .unwrap();
        let admin = torno_stage::world::random().unwrap();
        let authority = Authority::new("Torno stage, authority of databases").unwrap();
        let (chain, key) = authority.server_pem(&[HOST]).unwrap();
        let place = |name: &str| directory.path().join(name);
        let ca = outside.join("pg-ca.pem");
        std::fs::write(&ca, authority.pem()).unwrap();
        for (name, text) in [("chain.pem", &chain), ("key.pem", &key), ("admin", &admin)] {
            std::fs::write(place(name), text).unwrap();
        }
        mode(&place("key.pem"), "600");
        mode(directory.path(), "711");
        own(directory.path());
        let data = place("data");
        let init = as_server(&programs.join("initdb"))
            .args([
                "--auth=scram-sha-256",
                "--username=admin",
                "--encoding=UTF8",
            ])
            .args(["--locale=C", "--no-sync", "--pwfile"])
            .arg(place("admin"))
            .arg(&data)
            .output()
            .unwrap();
        assert!(init.status.success(), "{init:?}");
        let port = free_port();
        let file = |name: &str| place(name).display().to_string();
        let server = as_server(&programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .args([
                "-c",
                "listen_addresses=127.0.0.1",
                "-c",
                "unix_socket_directories=",
            ])
            .args([
                "-c",
                &format!("port={port}"),
                "-c",
                "fsync=off",
                "-c",
                "ssl=on",
            ])
            .args(["-c", &format!("ssl_cert_file={}", file("chain.pem"))])
            .args(["-c", &format!("ssl_key_file={}", file("key.pem"))])
            .args(["-c", "log_connections=on", "-c", "shared_buffers=16MB"])
            .stderr(std::fs::File::create(place("log")).unwrap())
            .spawn()
            .unwrap();
        let far = Self {
            server,
            directory,
            programs,
            port,
            admin,
            ca,
        };
        let started = Instant::now();
        while !far.admin("postgres", "select 1").status.success() {
            let late = started.elapsed() > Duration::from_secs(30);
            assert!(!late, "{}", far.log());
            std::thread::sleep(Duration::from_millis(100));
        }
        let made = far.admin("postgres", &WORLD.replace("@PASSWORD@", password));
        assert!(made.status.success(), "{made:?}");
        far
    }

    /// What the administrator sees, on a way of their own.
    pub(super) fn ask(&self, sql: &str) -> String {
        let output = self.admin("shop", sql);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn admin(&self, database: &str, sql: &str) -> Output {
        let mut psql = Command::new(self.programs.join("psql"))
            .args([
                "-X",
                "-At",
                "-q",
                "-v",
                "ON_ERROR_STOP=1",
                "-h",
                "127.0.0.1",
                "-U",
                "admin",
            ])
            .args(["-p", &self.port.to_string(), database])
            .env_clear()
            .env("PGPASSWORD", &self.admin)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = psql.stdin.take().unwrap();
        // It may have ended already, which its status says.
        let _ = std::io::Write::write_all(&mut input, sql.as_bytes());
        drop(input);
        psql.wait_with_output().unwrap()
    }

    /// The server's own log.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// The operator's pin for it.
    pub(super) fn pin(&self) -> String {
        let (port, ca) = (self.port, self.ca.display());
        format!(
            "[[pin]]\nhost = \"{HOST}\"\nport = 5432\naddress = \"127.0.0.1:{port}\"\nca = \"{ca}\"\n"
        )
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        let process = self.server.id().to_string();
        // An immediate shutdown ends the server's children too.
        let _dead = Command::new("/bin/kill").args(["-QUIT", &process]).status();
        let _reaped = self.server.wait();
    }
}

/// A program as the server's user, when we are root.
fn as_server(program: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("/usr/bin/setpriv");
        command.args([
            "--reuid",
            SERVER_USER,
            "--regid",
            SERVER_USER,
            "--clear-groups",
            "--",
        ]);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command.current_dir("/");
    command
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0)
}

fn own(directory: &Path) {
    if is_root() {
        let owner = format!("{SERVER_USER}:{SERVER_USER}");
        let chown = Command::new("/bin/chown")
            .args(["-R", &owner])
            .arg(directory)
            .status();
        assert!(chown.unwrap().success());
    }
}

fn mode(path: &Path, mode: &str) {
    let chmod = Command::new("/bin/chmod").arg(mode).arg(path).status();
    assert!(chmod.unwrap().success());
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
