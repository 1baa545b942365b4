// SPDX-License-Identifier: Apache-2.0
//! The end-to-end stories: the shipped binaries, real runtimes, real clients, and far ends that are
//! no part of Torno. One module for each story. A story that can't run here prints
//! `SKIP: name: reason`, and the list of skips is a committed file.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a story that can't go on must stop"
)]

mod addresses;
mod agent_reaches_allowed_host;
mod ahead;
mod an_ordinary_user;
mod answers_are_searched;
mod audit_survives_a_crash;
mod bound_workspaces;
mod budgets;
mod commits_come_back;
mod cookies_and_tokens_stay_outside;
mod credentials_in_bodies;
mod credentials_in_query_and_path;
mod curl_scenarios;
mod databases;
mod encoded_bodies_pass_untouched;
mod escapes_are_refused_as_listed;
mod explain_is_what_is_enforced;
mod far_ends_prove_who_they_are;
mod features_that_do_not_exist;
mod front_door_searches_what_enters;
mod gate_made_ahead;
mod gate_signs;
mod git_clone_and_push_bound_to_repository;
mod git_scenarios;
mod guest_lies_to_its_gate;
mod hostile_attempts_fail;
mod hostile_gate;
mod hostile_http_is_refused;
mod hostile_inputs;
mod hostile_trees_come_back_harmless;
mod http2_clients;
mod idle_sessions_end;
mod images;
mod images_at_every_level;
mod install_phase_has_its_own_credentials;
mod install_phase_is_walled_and_locked;
mod kill_cuts_a_live_stream;
mod kill_ends_the_porters;
mod ledger;
mod leftovers_are_found;
mod limits;
mod listed_directories_are_shown;
mod machine_workspaces;
mod machines;
mod machines_by_kvm;
mod machines_start_warm;
mod nothing_of_a_request_is_written_down;
mod nothing_outlives_a_session;
mod operators_see_and_limit;
mod package_clients_install;
mod placeholder_goes_nowhere_else;
mod places_that_others_prepared;
mod presets_are_learnt;
mod probes_find_echoes;
mod real_clients;
mod refusals_say_what_to_do;
mod registries;
mod results_come_back_by_hand;
mod roles;
mod roles_are_refused_what_is_forbidden;
mod roles_inherit_nothing;
mod roles_lack_what_is_forbidden;
mod rules_know_what_is_said;
mod sandboxes_made_ahead;
mod scenarios;
mod search;
mod sessions_checkpoint;
mod sessions_pause;
mod signed_requests;
mod smuggling_matrix;
mod stage;
mod streams_and_exit_codes;
mod submodules_lead_nowhere;
mod the_desk_knows_its_callers;
mod tripwires_freeze_the_session;
mod websockets;
mod what_a_host_would_run_stays_behind;
mod without_an_authority;
