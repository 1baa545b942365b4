// SPDX-License-Identifier: Apache-2.0
//! Functions by their names: which of them act beside the transaction that the server keeps from
//! writing, or run a text that nobody looked at.

/// By name or by the beginning of it, wherever it stands.
const ACTING: [&str; 21] = [
    "set_config",
    "dblink",
    "lo_",
    "loread",
    "lowrite",
    "query_to_xml",
    "cursor_to_xml",
    "table_to_xml",
    "schema_to_xml",
    "database_to_xml",
    "ts_stat",
    "ts_rewrite",
    "crosstab",
    "connectby",
    "xpath_table",
    "xslt_process",
    "autoprewarm_",
    "binary_upgrade_",
    "brin_",
    "gin_clean_",
    "heap_force_",
];

/// Of the server's own, and of its extensions, those that only read: what begins with `pg_` and is
/// not on this list acts (written from PostgreSQL 15's catalogue, with all that it ships with).
const READING: [&str; 74] = [
    "pg_available_",
    "pg_backend_pid",
    "pg_basetype",
    "pg_blocking_pids",
    "pg_buffercache_pages",
    "pg_char_to_encoding",
    "pg_check_",
    "pg_client_encoding",
    "pg_collation_",
    "pg_column_",
    "pg_conf_load_time",
    "pg_config",
    "pg_control_",
    "pg_conversion_is_visible",
    "pg_current_",
    "pg_cursor",
    "pg_database_",
    "pg_describe_object",
    "pg_encoding_",
    "pg_export_snapshot",
    "pg_extension_update_paths",
    "pg_filenode_relation",
    "pg_freespace",
    "pg_function_is_visible",
    "pg_get_",
    "pg_has_role",
    "pg_hba_file_rules",
    "pg_ident",
    "pg_index",
    "pg_input_",
    "pg_is_",
    "pg_isolation_test_session_is_blocked",
    "pg_jit_available",
    "pg_last_",
    "pg_listening_channels",
    "pg_lock_status",
    "pg_ls_",
    "pg_lsn",
    "pg_mcv_list_items",
    "pg_my_temp_schema",
    "pg_notification_queue_usage",
    "pg_old_snapshot_time_mapping",
    "pg_opclass_is_visible",
    "pg_operator_is_visible",
    "pg_opfamily_is_visible",
    "pg_options_to_table",
    "pg_partition_",
    "pg_postmaster_start_time",
    "pg_prepared_",
    "pg_read_",
    "pg_relation_",
    "pg_relpages",
    "pg_safe_snapshot_blocking_pids",
    "pg_sequence_",
    "pg_settings_get_flags",
    "pg_show_",
    "pg_size_",
    "pg_sleep",
    "pg_snapshot_",
    "pg_stat_file",
    "pg_stat_get_",
    "pg_stat_have_stats",
    "pg_statistics_obj_is_visible",
    "pg_table",
    "pg_timezone_",
    "pg_total_relation_size",
    "pg_trigger_depth",
    "pg_ts_",
    "pg_type",
    "pg_visib",
    "pg_wal_lsn_diff",
    "pg_walfile_name",
    "pg_xact_commit_timestamp",
    "pg_xact_status",
];

/// Whether this name is one of a function that acts.
pub(super) fn acts(name: &[u8]) -> bool {
    begins(name, &ACTING)
}

/// Whether what is called by this name may act.
pub(super) fn acts_when_called(name: &[u8]) -> bool {
    begins(name, &["pg_"]) && !begins(name, &READING)
}

fn begins(name: &[u8], starts: &[&str]) -> bool {
    starts.iter().any(|known| {
        let start = name.get(..known.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(known.as_bytes()))
    })
}
