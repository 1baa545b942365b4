// SPDX-License-Identifier: Apache-2.0
//! Statements and their classes.

use super::*;

fn class(text: &str) -> Class {
    judge(text.as_bytes()).class
}

#[test]
fn what_only_reads_is_known_and_everything_else_writes() {
    for text in [
        "select 1",
        "SELECT * from t where a = 'insert into x'",
        "(select 1) union values (2)",
        "with a as (select 1) select * from a",
        "table t",
        "explain (analyze, buffers) select 1",
        "show search_path",
        "declare c cursor for select 1",
        "fetch 10 from c",
        "prepare p as select $1::int",
        "execute p(1)",
        "copy t to stdout",
        "copy (select a from t) to stdout with csv",
        "listen x",
        "select \"update\" from t; select 2",
    ] {
        assert_eq!(class(text), Class::Read, "{text}");
    }
    for text in [
        "insert into t values (1)",
        "with a as (delete from t returning *) select * from a",
        "select * into u from t",
        "select * from t for update",
        "explain analyze insert into t values (1)",
        "explain analyze create table u as select 1",
        "create table t (a int)",
        "truncate t",
        "vacuum",
        "call p()",
        "do $$ begin perform 1; end $$",
        "notify x",
        "lock table t",
        "copy t from stdin",
        "copy t to '/tmp/x'",
        "prepare p as insert into t values (1)",
        "prepare transaction 'x'",
        "commit prepared 'x'",
        "begin read write",
        "start transaction isolation level serializable, read write",
        "start transaction isolation level repeatable read, not deferrable, read write",
        "begin /* */ work isolation level read committed , read  Write",
        "set transaction read write",
        "set transaction isolation level repeatable read, not deferrable, read write",
        "set session characteristics as transaction read write",
        "unknown words",
        "select 1; drop table t",
    ] {
        assert_eq!(class(text), Class::Write, "{text}");
    }
}

#[test]
fn functions_that_act_or_run_text_write() {
    for text in [
        "select set_config('search_path', '', false)",
        "select pg_catalog.\"set_config\"('app.user', $1, true)",
        "select * from ts_stat('select set_config(1)')",
        "select query_to_xml_and_xmlschema('x', true, true, '')",
        "select lo_create(0)",
        "select dblink_exec('x', 'y')",
        "execute p(SET_CONFIG('a.b','c',false))",
    ] {
        assert_eq!(class(text), Class::Write, "{text}");
    }
}

#[test]
fn transactions_and_listed_settings_belong_to_the_session() {
    for text in [
        "",
        ";;",
        "begin",
        "begin read only",
        "commit; begin",
        "rollback to savepoint a",
        "savepoint a",
        "set statement_timeout = 10",
        "set local search_path to x, y",
        "SET SESSION timezone TO 'UTC'",
        "set time zone 'UTC'",
        "set app.user_id = '5'",
        "set session characteristics as transaction read only",
        "reset all",
        "reset search_path",
        "discard plans",
        "unlisten *",
    ] {
        assert_eq!(class(text), Class::Session, "{text}");
    }
    for (text, count, is_transaction) in [
        ("select 1; commit", 2, true),
        ("begin; select 1", 2, false),
        ("explain analyze execute c; select 1", 2, true),
        ("create table t as execute c", 1, true),
        (
            "create trigger g before insert on t for each row execute function f()",
            1,
            false,
        ),
        ("prepare transaction 'x'", 1, true),
        ("commit", 1, true),
        ("select 1;", 1, false),
        ("select 'commit'", 1, false),
    ] {
        let judged = judge(text.as_bytes());
        assert_eq!(
            (judged.count, judged.is_transaction),
            (count, is_transaction),
            "{text}"
        );
    }
}

#[test]
fn what_the_gate_holds_and_what_outlives_a_session_is_told_apart() {
    for text in [
        "set role admin",
        "SET LOCAL ROLE none",
        "reset role",
        "set session authorization admin",
        "reset session authorization",
        "set standard_conforming_strings = off",
        "set default_transaction_read_only = off",
        "set transaction_read_only = off",
        "set \"role\" = admin",
        "set names 'SJIS'",
        "set client_encoding to gbk",
        "discard all",
        "select 1; set role x",
    ] {
        assert_eq!(class(text), Class::Held, "{text}");
    }
    for text in [
        "alter user app password 'x'",
        "create role r login",
        "drop user u",
        "grant all on t to public",
        "revoke x from y",
        "alter default privileges grant select on tables to x",
        "alter system set x = 1",
        "reassign owned by a to b",
        "copy t from program 'id'",
        "create/**/user u",
    ] {
        assert_eq!(class(text), Class::Authority, "{text}");
    }
}

/// At a binding that writes the class is the only check: a token that is unclear anywhere must not
/// make less of the statements beside it.
#[test]
fn what_is_unclear_is_no_way_around_what_is_held_or_outlives_a_session() {
    for text in [
        "create role r login password U&'x'",
        "create role r superuser; select U&'x'",
        "copy t to program U&'id'",
        "grant all on t to public; select E'a'\n'b'",
        "alter user app password 'x'; select 1a",
    ] {
        assert_eq!(class(text), Class::Authority, "{text}");
    }
    for text in [
        "reset role; delete from t where a = U&'x'",
        "set role admin; select 0x1f",
        "set client_encoding to sjis; select U&'x'",
    ] {
        assert!(class(text) >= Class::Held, "{text}");
    }
    for text in ["commit; reset role; select U&'x'", "select U&'x'; commit"] {
        assert!(judge(text.as_bytes()).is_transaction, "{text}");
    }
}

#[test]
fn rights_that_another_statement_gives_outlive_a_session_too() {
    for text in [
        "create schema s create table t (a int) grant all on t to public",
        "drop owned by app",
        "alter table t owner to other",
        "alter database shop owner to other",
        "alter function f() security definer",
    ] {
        assert_eq!(class(text), Class::Authority, "{text}");
    }
}

/// Each of them could mean one thing to the gate and another to some server.
#[test]
fn what_is_unclear_is_refused_at_either_access() {
    for text in [
        "select U&'\\0061'",
        "select U&\"d\\0061t\"",
        "select 'open",
        "select 1; select 0x1f",
        "insert into t values (1a)",
    ] {
        assert_eq!(class(text), Class::Unclear, "{text}");
    }
}

#[test]
fn names_that_only_look_like_rights_write_or_read() {
    for text in [
        "alter sequence s owned by t.a",
        "create table trades (security text, owner text)",
        "update t set owner = 'x', security = 'y'",
        "create view v as select owner from t",
        "create foreign table f (a int) server s options (filename 'x')",
        "create database d",
    ] {
        assert_eq!(class(text), Class::Write, "{text}");
    }
    assert_eq!(class("select owner, program_id from t"), Class::Read);
    for text in [
        "create foreign table f (a int) server s options (program 'id')",
        "alter foreign table f options (set \"program\" 'id')",
        "create schema s authorization other",
        "create database d owner other",
        "alter database d set search_path to x",
        "create function f() returns int language sql security definer as 'select 1'",
        "alter table t disable row level security",
        "create policy p on t using (true)",
        "create event trigger e on ddl_command_end execute function f()",
    ] {
        assert_eq!(class(text), Class::Authority, "{text}");
    }
}

/// Names of the server's own that are not known to read, act: newer versions have more of them.
#[test]
fn what_the_server_has_of_its_own_is_known_to_read_or_writes() {
    for text in [
        "select pg_get_viewdef('v'), pg_size_pretty(pg_total_relation_size('t'))",
        "select pg_catalog.pg_table_is_visible(c.oid) from pg_catalog.pg_class c",
        "select * from pg_stat_activity where pid = pg_backend_pid()",
        "select pg_is_in_recovery(), pg_sleep(1)",
        "select * from pg_settings",
    ] {
        assert_eq!(class(text), Class::Read, "{text}");
    }
    for text in [
        "select pg_try_advisory_lock(1)",
        "select pg_catalog.\"pg_notify\"('a', 'b')",
        "select pg_log_standby_snapshot ()",
        "select pg_of_tomorrow /* x */ (1)",
        "select * from xslt_process('a', 'b')",
    ] {
        assert_eq!(class(text), Class::Write, "{text}");
    }
}

/// None of these minds a transaction that is read only.
#[test]
fn functions_that_act_beside_a_transaction_write() {
    for text in [
        "select pg_file_write('x', 'y', false)",
        "select pg_switch_wal()",
        "select pg_promote()",
        "select pg_stat_reset()",
        "select pg_replication_slot_advance('s', '0/1')",
        "select pg_copy_logical_replication_slot('a', 'b')",
        "select * from xpath_table('a', 'b', 't', '/c', 'true')",
    ] {
        assert_eq!(class(text), Class::Write, "{text}");
    }
}

/// A run of messages is judged before its first one is executed: what changes how the next is cut
/// into words, or who acts, is held whichever way it is said.
#[test]
fn a_setting_that_is_held_is_held_in_a_function_and_in_its_view_too() {
    for text in [
        "select set_config('standard_conforming_strings', 'off', false)",
        "select set_config('client_encoding', 'SJIS', false)",
        "select set_config('role', 'none', false)",
        "update pg_settings set setting = 'off' where name = 'standard_conforming_strings'",
        "update pg_catalog.pg_settings set setting = 'none' where name = 'role'",
        "create view v as select * from \"pg_settings\"",
        "select set_config($1, 'off', false)",
        "select set_config('ro' 'le', 'none', false)",
        "select set_config(e'role', 'none', false)",
        "select set_config(setting_name => 'role', new_value => 'none', is_local => false)",
        "select set_config('search_path', '', false), set_config('role', 'none', false)",
    ] {
        assert!(class(text) >= Class::Held, "{text}: {:?}", class(text));
    }
    // What the second message of such a run says, read with the setting on and off.
    let text = r"copy (select '\' ) to stdout --') to program 'id'";
    assert_eq!(class(text), Class::Read);
}
