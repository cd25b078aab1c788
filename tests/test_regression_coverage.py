"""Each defect of the historic line has tests that keep it from coming back."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent


@pytest.mark.parametrize("number", [1, 2, 4, 7, 8, 10, 13, 14, 15, 16, 19, 24, 27])
def test_each_defect_of_the_library_has_a_test(number):
    named = re.compile(rf"def test_\w*pains?_{number}_|PAINS {number}\b", re.IGNORECASE)
    assert any(named.search(path.read_text()) for path in TESTS.rglob("test_*.py")), number


# What proves that others do not come back, which are of nodes and so are tested where nodes are.
PROOFS = {
    3: (
        "attacks/test_nodes.py::test_pen_test_values_through_texts",
        "attacks/test_nodes.py::test_names_in_messages_count_for_nothing",
        "attacks/test_nodes.py::test_a_plan_of_mallory_gets_nothing_of_alice",
        "cli/test_cli.py::test_requests_grants_and_the_log",
    ),
    5: (
        "workers/test_websockets.py::test_a_server_with_a_certificate_is_spoken_to_over_verified_tls_only",
        "workers/test_websockets.py::test_other_machines_are_spoken_to_over_tls_only",
        "attacks/test_nodes.py::test_tokens_that_are_not_good",
        "cli/test_cli.py::test_what_can_not_start_says_why_in_one_line",
        "grid/test_gateway.py::test_it_is_open_to_others_only_with_tls_and_tokens",
    ),
    21: (
        "journeys/test_websockets_parallel.py::test_they_really_train_at_the_same_time",
        "federated/test_federated_client.py::test_async_fit_runs_at_the_same_time",
        "grid/test_networks.py::test_workers_are_searched_at_the_same_time_and_not_for_ever",
    ),
    22: (
        "workers/test_websockets.py::test_a_cut_line_is_mended_and_everything_is_done_once",
        "workers/test_websockets.py::test_a_message_larger_than_a_piece_of_the_line_passes_in_pieces",
        "workers/test_websockets.py::test_errors_come_back_with_type_worker_traceback_and_line",
        "grid/test_faults.py::test_a_line_cut_while_a_plan_runs_runs_it_once",
        "grid/test_faults.py::test_fifty_clients_get_exactly_their_own_answers",
    ),
    28: (
        "cli/test_cli.py::test_start_says_what_is_served_and_to_whom",
        "cli/test_cli.py::test_data",
        "cli/test_cli.py::test_requests_grants_and_the_log",
        "cli/test_places.py::test_a_node_keeps_what_it_holds_without_being_told_where",
    ),
}


@pytest.mark.parametrize(("number", "proof"), [(number, proof) for number, found in PROOFS.items() for proof in found])
def test_each_defect_of_nodes_has_tests(number, proof):
    """PAINS 3, 5, 21, 22 and 28: permissions, transport, one after the other, websockets, and the owner's part."""
    file, _, name = proof.partition("::")
    assert re.search(rf"^def {name}\(", (TESTS / file).read_text(), re.MULTILINE), f"PAINS {number} lost {proof}"
