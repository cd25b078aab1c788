"""The numbers on the wire: every type has one code, the same in every version."""

import pytest

import syft as sy
import syft.federated
import syft.hosting
import syft.mpc
from syft.core.references import Ref
from syft.exceptions import SerdeError
from syft.messaging import message as m
from syft.serde import registry
from syft.serde.wire_codes import CODES, build_table

# Never change a row: nodes and clients of different versions exchange these numbers.
PINNED = """
    1 tuple  2 list  3 dict  4 set  5 frozenset  6 range  7 slice  8 ellipsis  9 complex  10 bytes  11 bytearray
    12 str
    30 ndarray  31 generic
    40 Tensor  41 Parameter  42 Size  43 device  44 dtype  45 memory_format  46 layout  47 ScriptModule
    48 ScriptFunction  49 TopLevelTracedModule  50 max
    60 SyftTensor  61 LoggingTensor  62 PlusIsMinusTensor  63 PlaceHolder  64 FixedPrecisionTensor
    65 AdditiveSharingTensor  66 PolynomialTensor  67 PrivateTensor  74 AutogradTensor  75 PaillierTensor
    80 ObjectPointer  81 PointerTensor  82 MultiPointerTensor  83 CallablePointer  84 StringPointer  85 ObjectWrapper
    86 Ref  87 TensorMeta  88 ObjectMeta  89 SameAs  90 PointerPlan  91 PointerProtocol
    100 Plan  101 State  102 Protocol  103 RoleProtocol
    120 Message  121 Operation  122 ObjectMessage  123 ObjectRequestMessage  124 IsNoneMessage  125 GetShapeMessage
    126 ForceObjectDeleteMessage  127 RetainMessage  128 ReleaseMessage  129 HandOverMessage  130 FetchThereMessage
    131 SearchMessage  132 BatchMessage  133 PlanCommandMessage  134 ErrorMessage  135 PublishMessage  136 ClaimMessage
    137 RunMessage  138 RequestReleaseMessage  139 RequestStatusMessage  140 ListRightsMessage
    141 DecideRequestMessage  142 RevokeGrantMessage  143 ShareSourceMessage  144 StepsMessage
    150 HostModelMessage  151 HostSharesMessage  152 ModelsMessage  153 DownloadModelMessage  154 DeleteModelMessage
    155 InferenceMessage  156 SharedInferenceMessage
    160 String  161 BaseWorker  162 BaseWorker  163 TrainConfig  164 Payload
    170 HostedModel  171 EncryptedModel  172 StoredDataset  173 GetNotPermittedError  174 ResponseSignatureError
    231 LargePrecisionTensor  232 CRTPrecisionTensor  233 NumpyTensor
    175 PublicKeyCodec
""".split()


def names(table):
    return {code: cls if isinstance(cls, str) else cls.__qualname__.rpartition(".")[2] for code, cls in table.items()}


def test_codes_are_pinned():
    pinned = dict(zip(map(int, PINNED[::2]), PINNED[1::2], strict=True))
    assert names(CODES) == pinned
    registered = {code: row.cls for code, row in registry.BY_CODE.items() if code < registry.FIRST_USER_CODE}
    assert names(registered) == pinned


@pytest.mark.parametrize(
    ("obj", "binary"),
    [
        ([1, {"a": None}], "280100000008000000009302019303a161c0"),
        (Ref(5, "grad"), "28010000000800000000935605a467726164"),
        (m.ReleaseMessage((1, 2)), "2801000000070000000092cc8093010102"),
        (m.RevokeGrantMessage("g"), "2801000000050000000092cc8ea167"),
    ],
)
def test_bytes_on_the_wire_are_pinned(obj, binary):
    assert sy.serialize(obj).hex() == binary


def test_a_code_given_twice_is_refused_when_the_table_is_built():
    assert build_table(((1, int), (2, str))) == {1: int, 2: str}
    with pytest.raises(SerdeError, match="wire code 1 of .* already belongs to"):
        build_table(((1, int), (2, str), (1, float)))
