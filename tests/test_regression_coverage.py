"""Each defect of PySyft 0.2 that its users met has tests that keep it from coming back."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
# Defect of the 0.2 line: the files whose tests show that it is absent, with the tests by name.
DEFECTS = {
    "deserializing a tensor runs code": {
        "attacks/test_code_execution.py": (
            "test_no_payload_runs_in_any_tensor_strategy",
            "test_pickled_messages_are_not_loaded",
            "test_script_modules_are_refused_unless_trusted",
        ),
    },
    "a message runs any method of a worker": {
        "attacks/test_code_execution.py": (
            "test_calls_outside_the_table_are_refused",
            "test_a_command_on_self_reaches_no_object",
            "test_plan_commands_outside_the_table_are_refused",
            "test_attribute_paths_are_refused",
        ),
    },
    "clients state their own identity and permissions are not enforced": {
        "attacks/test_nodes.py": (
            "test_values_do_not_leave_through_texts",
            "test_names_in_messages_count_for_nothing",
            "test_a_plan_of_mallory_gets_nothing_of_alice",
        ),
        "cli/test_cli.py": ("test_requests_grants_and_the_log",),
    },
    "values can be read without asking": {
        "attacks/test_release.py": ("test_no_value_leaves_by_any_path", "test_errors_do_not_reveal_values"),
    },
    "connections are neither encrypted nor authenticated": {
        "workers/test_websocket_client.py": (
            "test_a_server_with_a_certificate_requires_verified_tls",
            "test_other_machines_require_tls",
        ),
        "attacks/test_nodes.py": ("test_invalid_tokens_are_refused",),
        "cli/test_cli.py": ("test_failed_starts_print_one_line",),
        "grid/gateway/test_gateway.py": ("test_it_is_open_to_others_only_with_tls_and_tokens",),
    },
    "ids can be predicted from a seed": {
        "attacks/test_sessions.py": ("test_ids_do_not_depend_on_seeds", "test_a_forked_child_draws_other_ids"),
    },
    "calls without a rule give wrong results": {
        "tensors/test_links_without_rules.py": ("test_calls_without_a_rule_are_refused",),
    },
    "PATE reports too small an epsilon": {"dp/test_pate.py": ("test_labels_of_the_course_where_all_teachers_agree",)},
    "objects are leaked, or deleted while they are used": {
        "attacks/test_sessions.py": ("test_many_calls_leave_no_objects", "test_calls_do_not_leak_memory"),
        "workers/execution/test_ownership.py": ("test_memory_does_not_grow_over_100_000_operations",),
    },
    "a fetched pointer can't be printed": {
        "pointers/test_pointer_tensor.py": ("test_spent_pointers_raise_a_clear_error",)
    },
    "a local tensor plus a pointer is empty": {
        "pointers/test_pointer_tensor.py": ("test_mixing_with_a_local_tensor_is_one_clear_error",),
    },
    "functions of torch are replaced for good": {"hook/test_plain_torch.py": ("test_the_hook_leaves_torch_as_it_was",)},
    "optimizers with state fail across workers": {
        "hook/test_optimizers.py": ("test_same_steps_as_local",),
        "federated/test_floptimizer.py": ("test_the_steps_of_an_optimizer_for_each_worker",),
    },
    "workers run one after the other": {
        "journeys/test_websockets_parallel.py": ("test_they_really_train_at_the_same_time",),
        "federated/client/test_federated_client.py": ("test_async_fit_runs_at_the_same_time",),
        "grid/test_networks.py": ("test_workers_are_searched_at_the_same_time_and_not_for_ever",),
    },
    "WebSocket workers lose connections and repeat commands": {
        "workers/test_websocket_client.py": (
            "test_a_lost_connection_resumes_and_each_call_runs_once",
            "test_a_message_larger_than_a_fragment_is_sent_in_fragments",
            "test_errors_come_back_with_type_worker_traceback_and_line",
        ),
        "grid/server/test_faults.py": (
            "test_a_connection_lost_while_a_plan_runs_runs_it_once",
            "test_fifty_clients_get_exactly_their_own_answers",
        ),
    },
    "errors are empty or name internals": {"test_error_texts.py": ("test_errors_say_what_to_do",)},
    "numpy arrays, gradients and devices do not survive serialization": {
        "serde/test_tensor_strategies.py": ("test_serialized_tensors_keep_everything",),
    },
    "owners can't load data, decide on requests or read a log": {
        "cli/test_cli.py": (
            "test_start_prints_data_sets_and_their_users",
            "test_data",
            "test_requests_grants_and_the_log",
        ),
        "cli/test_places.py": ("test_a_node_has_a_default_store",),
    },
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_has_tests(defect):
    for file, names in DEFECTS[defect].items():
        text = (TESTS / file).read_text()
        missing = [name for name in names if not re.search(rf"^def {name}\(", text, re.MULTILINE)]
        assert not missing, f"{defect}: {file} lost {missing}"
