"""The public API: each addition or removal is a decision, made by changing the table here."""

import importlib
import inspect
import pickle
import re
import subprocess
import sys

import pytest

PUBLIC = {
    "syft": """
        AdditiveSharingTensor AutogradTensor BaseDataset BaseWorker CRTPrecisionTensor CallablePointer
        FederatedDataLoader FederatedDataset FixedPrecisionTensor ID_PROVIDER LargePrecisionTensor LoggingTensor
        MultiPointerTensor NodeClient NumpyTensor ObjectPointer ObjectWrapper PaillierTensor PlaceHolder Plan
        PlusIsMinusTensor PointerPlan PointerProtocol PointerTensor PolynomialTensor PrivateGridNetwork PrivateTensor
        ProcessWorker Protocol PublicGridNetwork RayWorker State String StringPointer TorchHook TrainConfig
        VirtualWorker WebsocketClientWorker WebsocketServerWorker __version__ acting_as codes combine_pointers config
        connect count_messages create_sandbox deserialize dp exceptions execution federated framework frameworks
        func2plan func2protocol generic grid hook keygen launch linalg local_worker messaging method2plan mpc nn pool
        serde serialize torch workers
    """,
    "syft.dp": """
        Accountant Approximate Event Exponential Gaussian GaussianNoise Laplace Ledger Limit Neighbours NonPrivate
        PoissonSampled PrivacyEngine Pure ReportNoisyMax SamplePrivacy UserPrivacy accounting budget count dataset
        event_from_dict histogram mean mechanisms median most_common noise noise_for pate quantile queries sum
    """,
    "syft.federated": """
        BaseDataset ByLabel CSVLogger Dirichlet FedAdam FedAvg FedAvgM FedMedian FedProx FedYogi
        FederatedDataLoader FederatedDataset History IID Identity Krum MLflowLogger Optims Result RoundReport
         RunStart Scaffold SecureAggregation Shards Simulation Stop Strategy TensorBoardLogger
        TrimmedMean dataloader dataset federated_client floptimizer require_secure run train_config utils
    """,
    "syft.mpc": """
        Invitation ModelClient ServedModel as_program check connect count op_by_op profile serve validate
    """,
}
TABLE = {package: names.split() for package, names in PUBLIC.items()}
# `sy.NumpyTensor` is the documented name of a factory, next to the class of that name.
ROWS = [(package, name) for package, names in TABLE.items() for name in names if name != "NumpyTensor"]


def test_the_packages_list_exactly_the_public_names():
    code = "import importlib, sys\nfor name in sys.argv[1:]: print(*dir(importlib.import_module(name)))"
    command = [sys.executable, "-c", code, *TABLE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)  # nothing else imported
    listed = dict(zip(TABLE, map(str.split, done.stdout.splitlines()), strict=True))
    assert listed == TABLE
    assert {package: sorted(dir(importlib.import_module(package))) for package in TABLE} == TABLE


@pytest.mark.parametrize(("package", "name"), ROWS)
def test_a_public_name_can_be_reached_and_says_where_it_is_public(package, name):
    found = getattr(importlib.import_module(package), name)
    if not isinstance(found, type) and not inspect.isfunction(found):
        return
    assert found.__module__ in TABLE, "the module is not a public package"
    assert getattr(sys.modules[found.__module__], found.__qualname__) is found
    assert pickle.loads(pickle.dumps(found)) is found
    assert re.search(rf"^(class|def) {name}\b", inspect.getsource(found), re.MULTILINE)


def test_inspect_finds_the_source_of_errors_and_of_unpublished_classes():
    for found in (importlib.import_module("syft").exceptions.SpentPointerError, inspect.Signature):
        assert inspect.getsource(found).startswith(f"class {found.__name__}")


def test_unknown_names_are_refused():
    for package in TABLE:
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            importlib.import_module(package).nothing


def test_star_import_needs_no_optional_package():
    code = "from syft import *\nassert VirtualWorker and 'WebsocketServerWorker' not in globals()\nimport sys\nassert 'fastapi' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
