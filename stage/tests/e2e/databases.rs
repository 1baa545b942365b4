// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL of unmodified clients inside, psql and psycopg2, to a real server outside: with the
//! placeholder as password, as one user of one database, reading or writing as it was bound.

mod far_end;
mod runs;

use crate::ahead::until;
use crate::stage::{Ran, Stage, cannot};
use far_end::{FarEnd, HOST, programs};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};
use torno_stage::account::Who;
use torno_stage::daemon::POLICY;
use torno_stage::daemon::level::told;
use torno_stage::unwalled::PYTHON;

/// psql without Debian's wrapper, which wants its own directories.
const PSQL: &str = r#"export PGPASSWORD="$API_TOKEN" PGCONNECT_TIMEOUT=20
sql() { "@BIN@/psql" -w -X -At "host=db.torno.test user=app dbname=shop $1" -c "$2" 2>&1; }
# Each statement by itself, on one connection.
each() { echo "$1" | "@BIN@/psql" -w -X -At "host=db.torno.test user=app dbname=shop" 2>&1; }
"#;

/// A stage whose world has a database, bound like this.
struct Databases {
    stage: Stage,
    far: FarEnd,
    level: &'static str,
}

impl Databases {
    fn new(level: &'static str, bind: &[&str], policy: &str) -> Self {
        let mut stage = Stage::new();
        let outside = stage.daemon.home().join("outside");
        let far = FarEnd::start(&stage.world.api_token, &outside);
        stage.daemon.down();
        let upstreams = format!("{}{}", stage.world.upstreams(), far.pin());
        let file = stage.daemon.home().join("config/upstreams.toml");
        std::fs::write(file, upstreams).unwrap();
        stage.daemon.up().unwrap();
        let key = stage.daemon.key_file();
        let key = key.to_str().unwrap();
        stage.torno(&["vault", "unseal", "--key-file", key]).good();
        let mut command = vec!["secret", "bind", "api", "--host", HOST, "--postgres"];
        command.extend(["--user", "app", "--database", "shop"]);
        command.extend(bind);
        stage.torno(&command).good();
        stage.daemon.write_workspace("torno.toml", policy).unwrap();
        stage.torno(&["trust", "--yes"]).good();
        stage.is_not_seen_whole("clients of databases export no keys of TLS");
        Self { stage, far, level }
    }

    /// A script with `sql 'more of the connection' 'statement'`.
    fn shell(&self, script: &str) -> Ran {
        self.stage.shell(self.level, &self.script(script))
    }

    fn script(&self, script: &str) -> String {
        let bin = programs().unwrap();
        let psql = PSQL.replace("@BIN@", bin.to_str().unwrap());
        format!("{psql}{script}")
    }

    fn end(self) {
        let level = self.level;
        self.stage.end_at(level);
    }
}

fn at_each_level(story: &str, (bind, policy): (&[&str], &str), tell: impl Fn(&Databases)) {
    if programs().is_none() {
        println!("SKIP: {story}: no PostgreSQL server is installed");
        return;
    }
    for &level in told() {
        if let Some(why) = cannot(Who::Caller, story, level) {
            println!("SKIP: {story} at {level}: {why}");
            continue;
        }
        println!("{story}: {level}");
        let databases = Databases::new(level, bind, policy);
        tell(&databases);
        databases.end();
    }
}

const READ: [&str; 4] = ["--access", "read", "--role", "reader"];
const WRITE: [&str; 2] = ["--access", "write"];

#[test]
fn a_database_is_read_with_a_placeholder_and_nothing_is_written() {
    at_each_level("databases that are read", (&READ, POLICY), |databases| {
        let ran = databases.shell(
            r#"
            echo "select: $(sql '' 'select name from items order by id')" | tr '\n' ' '; echo
            echo "tls: $(sql 'sslmode=verify-full sslrootcert=/etc/ssl/certs/ca-certificates.crt' 'select 7')"
            echo "clear: $(sql 'sslmode=disable' 'select 8')"
            echo "who: $(sql '' 'select session_user, current_user')"
            echo "leak: $(sql '' "select v, encode(b, 'escape') from leaks" | sed "s/$API_TOKEN/TOKEN/g")"
            echo "bytea: $(sql '' 'select b from leaks')"
            echo "copy: $(sql '' 'copy leaks to stdout' | sed "s/$API_TOKEN/TOKEN/g")"
            echo "error: $(sql '' 'select v::int from leaks' | sed "s/$API_TOKEN/TOKEN/g")"
            echo "insert: $(sql '' "insert into items values (3, 'x')")"
            echo "hidden: $(sql '' 'select sneak()')"
            echo "undo: $(sql '' "select set_config('default_transaction_read_only','off',false)")"
            echo "role: $(sql '' 'set role none')"
            echo "mixed: $(sql '' 'select 1; commit; select sneak()')"
            echo "private: $(sql '' 'select * from private')"
            "#,
        );
        let ran = ran.good();
        let said = |name: &str| {
            let mut lines = ran.stdout.lines();
            let line = lines.find_map(|line| line.strip_prefix(&format!("{name}: ")));
            line.unwrap_or_else(|| panic!("{name}: {ran:#?}"))
                .to_owned()
        };
        assert_eq!(said("select").trim(), "one two");
        assert_eq!((said("tls"), said("clear")), ("7".into(), "8".into()));
        assert_eq!(said("who"), "app|reader");
        assert_eq!(said("leak"), "it is TOKEN!|TOKEN");
        assert!(said("bytea").starts_with("\\x"), "{ran:#?}");
        assert!(said("copy").starts_with("it is TOKEN!"), "{ran:#?}");
        assert!(said("error").contains("it is TOKEN!"), "{ran:#?}");
        for (name, words) in [
            ("insert", "may only read"),
            ("hidden", "read-only transaction"),
            ("undo", "leave role"),
            ("role", "leave role"),
            ("mixed", "messages of their own"),
            ("private", "permission denied"),
        ] {
            assert!(said(name).contains(words), "{name}: {ran:#?}");
        }
        assert!(
            ran.stdout.contains("refused: binding_not_granted by"),
            "{ran:#?}"
        );
        let text = "select count(*) from items where id > 2";
        assert_eq!(databases.far.ask(text), "0");
    });
}

/// Functions that were there before undo what the server was told; it is told again.
const UNDOING: &str = r#"
echo "undo: $(each 'select undo(); select sneak();')"
echo "unquote: $(each 'select unquote(); select 1;')"
echo "begin: $(each 'begin; select undo(); commit; select sneak();')"
echo "unrole: $(each 'select unrole(); select current_user; select count(*) from private;')"
"#;

#[test]
fn what_undoes_the_servers_guard_is_told_again_or_cut() {
    let story = "databases whose functions undo";
    at_each_level(story, (&READ, POLICY), |databases| {
        let ran = databases.shell(UNDOING).good();
        let after = |name: &str| {
            let from = ran.stdout.find(&format!("{name}: ")).unwrap();
            ran.stdout[from..].to_owned()
        };
        // PostgreSQL 14 and later say that these changed.
        for name in ["undo", "unquote", "begin"] {
            let told = after(name);
            let cut = "a setting that statements are judged by was changed";
            let at = told.find(cut).unwrap_or_else(|| panic!("{name}: {ran:#?}"));
            let next = told.find("unrole: ").unwrap();
            assert!(at < next, "{name}: {ran:#?}");
        }
        let role = after("unrole");
        assert!(role.starts_with("unrole: none\nreader\n"), "{ran:#?}");
        assert!(
            role.contains("permission denied for table private"),
            "{ran:#?}"
        );
        assert_eq!(ran.stdout.matches("was changed").count(), 3, "{ran:#?}");
        let text = "select count(*) from items where id > 2";
        assert_eq!(databases.far.ask(text), "0");
    });
}

#[test]
fn another_login_or_password_is_refused_before_the_server_is_asked() {
    at_each_level("logins of databases", (&READ, POLICY), |databases| {
        let ran = databases.shell(
            r#"
            echo "user: $(sql 'user=admin' 'select 1')"
            echo "user2: $(sql 'user=app2' 'select 1')"
            echo "user3: $(sql 'user=APP' 'select 1')"
            echo "database: $(sql 'dbname=postgres' 'select 1')"
            echo "port: $(sql 'port=5433' 'select 1')"
            echo "options: $(sql "options='-c role=none'" 'select 1')"
            echo "replication: $(sql 'replication=database' 'select 1')"
            export PGPASSWORD=TRNOwrongwrongwrong
            echo "password: $(sql '' 'select 1')"
            unset PGPASSWORD
            echo "none: $(sql '' 'select 1')"
            "#,
        );
        let ran = ran.good();
        for (name, words) in [
            ("user", "binding_not_granted"),
            ("user2", "binding_not_granted"),
            ("user3", "binding_not_granted"),
            ("database", "binding_not_granted"),
            ("port", "not_granted"),
            ("options", "leave out options"),
            ("replication", "leave out options"),
            ("password", "placeholder"),
            ("none", "password"),
        ] {
            let from = ran.stdout.find(&format!("{name}: ")).unwrap();
            let text = ran.stdout[from..]
                .lines()
                .take(3)
                .collect::<Vec<_>>()
                .join(" ");
            assert!(text.contains(words), "{name}: {text}\n{ran:#?}");
        }
        let log = databases.far.log();
        assert!(
            !log.contains("user=app2") && !log.contains("user=app "),
            "{log}"
        );
    });
}

const WRITING: &str = r#"
import io, os, psycopg2
def connect():
    return psycopg2.connect(host='db.torno.test', user='app', dbname='shop',
                            password=os.environ['API_TOKEN'])
c = connect()
k = c.cursor()
k.execute('insert into items values (%s, %s) returning id', (3, 'drei'))
print('returned', k.fetchone()[0])
k.copy_expert('copy items from stdin', io.StringIO('4\tfour\n5\tfive\n'))
c.commit()
k.execute('insert into items values (6, %s)', ('x' * 500000,))
c.rollback()
out = io.StringIO()
k.copy_expert('copy items to stdout', out)
print('lines', len(out.getvalue().splitlines()))
k.execute('select count(*) from generate_series(1, 20000)')
print('many', k.fetchone()[0])
k.execute('select repeat(%s, 100000) from generate_series(1, 50)', ('y',))
print('large', sum(len(r[0]) for r in k.fetchall()))
c.commit()
for statement in ['alter user app password $$mine$$', 'set role reader', 'create role r login',
                  "create role spy login password U&'x'", 'alter table items owner to reader',
                  "select set_config('role', 'reader', false)"]:
    try:
        k.execute(statement)
        print('done', statement)
    except psycopg2.Error as e:
        print('refused', e.pgcode, e.diag.message_detail)
    c.rollback()
try:
    k.execute('select %s', ('z' * (2 << 20),))
    print('done too large')
except psycopg2.Error as e:
    print('too large', c.closed != 0)
"#;

#[test]
fn a_database_that_is_bound_to_write_is_written_and_its_logins_stay() {
    let story = "databases that are written";
    at_each_level(story, (&WRITE, POLICY), |databases| {
        let ran = databases
            .stage
            .run(databases.level, &[PYTHON, "-c", WRITING]);
        let ran = ran.good();
        let said: Vec<&str> = ran.stdout.lines().collect();
        let expected = [
            "returned 3",
            "lines 5",
            "many 20000",
            "large 5000000",
            "refused 42501 refused: binding_denies by egress.wire (wire)",
            "refused 42501 refused: operation_not_granted by egress.wire (wire)",
            "refused 42501 refused: binding_denies by egress.wire (wire)",
            "refused 42501 refused: binding_denies by egress.wire (wire)",
            "refused 42501 refused: binding_denies by egress.wire (wire)",
            "refused 42501 refused: operation_not_granted by egress.wire (wire)",
            "too large True",
        ];
        assert_eq!(said, expected, "{ran:#?}");
        assert_eq!(databases.far.ask("select count(*) from items"), "5");

        // The document narrows what the binding has.
        let stage = &databases.stage;
        let narrowed = POLICY.replace("\"API_TOKEN\"\n", "\"API_TOKEN\"\naccess = \"read\"\n");
        assert_ne!(narrowed, POLICY);
        stage
            .daemon
            .write_workspace("torno.toml", &narrowed)
            .unwrap();
        stage.torno(&["trust", "--yes"]).good();
        let ran = databases.shell(
            "sql '' 'select count(*) from items'; sql '' \"delete from items\"; \
             sql '' 'select sneak()'; true",
        );
        let ran = ran.good();
        assert!(ran.stdout.starts_with("5\n"), "{ran:#?}");
        for words in ["binding_not_granted", "read-only transaction"] {
            assert!(ran.stdout.contains(words), "{words}: {ran:#?}");
        }
        assert_eq!(databases.far.ask("select count(*) from items"), "5");
    });
}

const CANCELLED: &str = r"
import os, threading, psycopg2
c = psycopg2.connect(host='db.torno.test', user='app', dbname='shop',
                     password=os.environ['API_TOKEN'])
k = c.cursor()
threading.Timer(1, c.cancel).start()
try:
    k.execute('select pg_sleep(60)')
except psycopg2.errors.QueryCanceled:
    c.rollback()
    k.execute('select 5')
    print('cancelled', k.fetchone()[0], flush=True)
";

#[test]
fn a_statement_is_cancelled_and_a_revocation_or_a_kill_cuts() {
    let story = "databases that are cut";
    at_each_level(story, (&WRITE, POLICY), |databases| {
        let stage = &databases.stage;
        let started = Instant::now();
        let ran = stage
            .run(databases.level, &[PYTHON, "-c", CANCELLED])
            .good();
        assert_eq!(ran.stdout, "cancelled 5\n", "{ran:#?}");
        assert!(
            started.elapsed() < Duration::from_secs(40),
            "{:?}",
            started.elapsed()
        );

        // Of another length each time: the server goes on with a statement whose client is gone.
        let begin = |seconds: u8| {
            let statement = format!("select pg_sleep({seconds})");
            let script = databases.script(&format!("echo ready; sql '' '{statement}'"));
            let command = ["/bin/sh", "-c", &script];
            let mut run = stage.daemon.run_command(databases.level, &command);
            let mut run = run
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut said = BufReader::new(run.stdout.take().unwrap());
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            let asleep = format!(
                "select count(*) from pg_stat_activity where usename = 'app' \
                 and state = 'active' and query like '%pg_sleep({seconds})%'"
            );
            until("no statement", || databases.far.ask(&asleep) == "1");
            (run, said)
        };
        let (mut run, _said) = begin(61);
        stage.torno(&["kill", "--all"]).good();
        assert_eq!(run.wait().unwrap().code(), Some(137));
        let (mut run, mut said) = begin(62);
        stage.torno(&["secret", "revoke", "api"]).good();
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        run.wait().unwrap();
        assert!(
            rest.starts_with("FATAL:  this connection was cut"),
            "{rest}"
        );
    });
}
