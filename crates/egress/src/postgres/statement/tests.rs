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
        "select U&'\\0061'",
        "select 'open",
    ] {
        assert_eq!(class(text), Class::Write, "{text}");
    }
}

#[test]
fn functions_that_act_or_run_text_write() {
    for text in [
        "select set_config('default_transaction_read_only', 'off', false)",
        "select pg_catalog.\"set_config\"('role', 'none', false)",
        "select * from ts_stat('select set_config(1)')",
        "select query_to_xml_and_xmlschema('x', true, true, '')",
        "select lo_create(0)",
        "select dblink_exec('x', 'y')",
        "execute p(SET_CONFIG('a','b',false))",
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
