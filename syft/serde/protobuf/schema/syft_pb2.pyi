from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Nothing(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NOTHING: _ClassVar[Nothing]
NOTHING: Nothing

class Envelope(_message.Message):
    __slots__ = ("version", "value", "frames")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    version: int
    value: Value
    frames: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, version: _Optional[int] = ..., value: _Optional[_Union[Value, _Mapping]] = ..., frames: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("none", "boolean", "integer", "big_integer", "real", "text", "data", "buffer", "packed", "composite", "tuple", "list", "dict", "set", "frozenset", "range", "slice", "complex", "array", "tensor", "parameter", "size", "device", "dtype", "script_module", "script_function", "traced_module", "wrapper", "logging_tensor", "plus_is_minus_tensor", "placeholder", "fixed_precision_tensor", "additive_sharing_tensor", "polynomial_tensor", "object_pointer", "pointer_tensor", "multi_pointer", "callable_pointer", "string_pointer", "object_wrapper", "ref", "tensor_meta", "object_meta", "same_as", "pointer_plan", "pointer_protocol", "plan", "state", "protocol", "role_protocol", "message", "operation", "object_message", "object_request_message", "is_none_message", "get_shape_message", "force_object_delete_message", "retain_message", "release_message", "hand_over_message", "fetch_there_message", "search_message", "batch_message", "plan_command_message", "error_message", "publish_message", "claim_message", "run_message", "string")
    NONE_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    BIG_INTEGER_FIELD_NUMBER: _ClassVar[int]
    REAL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    BUFFER_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    COMPOSITE_FIELD_NUMBER: _ClassVar[int]
    TUPLE_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    DICT_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    FROZENSET_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    COMPLEX_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_MODULE_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FUNCTION_FIELD_NUMBER: _ClassVar[int]
    TRACED_MODULE_FIELD_NUMBER: _ClassVar[int]
    WRAPPER_FIELD_NUMBER: _ClassVar[int]
    LOGGING_TENSOR_FIELD_NUMBER: _ClassVar[int]
    PLUS_IS_MINUS_TENSOR_FIELD_NUMBER: _ClassVar[int]
    PLACEHOLDER_FIELD_NUMBER: _ClassVar[int]
    FIXED_PRECISION_TENSOR_FIELD_NUMBER: _ClassVar[int]
    ADDITIVE_SHARING_TENSOR_FIELD_NUMBER: _ClassVar[int]
    POLYNOMIAL_TENSOR_FIELD_NUMBER: _ClassVar[int]
    OBJECT_POINTER_FIELD_NUMBER: _ClassVar[int]
    POINTER_TENSOR_FIELD_NUMBER: _ClassVar[int]
    MULTI_POINTER_FIELD_NUMBER: _ClassVar[int]
    CALLABLE_POINTER_FIELD_NUMBER: _ClassVar[int]
    STRING_POINTER_FIELD_NUMBER: _ClassVar[int]
    OBJECT_WRAPPER_FIELD_NUMBER: _ClassVar[int]
    REF_FIELD_NUMBER: _ClassVar[int]
    TENSOR_META_FIELD_NUMBER: _ClassVar[int]
    OBJECT_META_FIELD_NUMBER: _ClassVar[int]
    SAME_AS_FIELD_NUMBER: _ClassVar[int]
    POINTER_PLAN_FIELD_NUMBER: _ClassVar[int]
    POINTER_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ROLE_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    OBJECT_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_REQUEST_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    IS_NONE_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    GET_SHAPE_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FORCE_OBJECT_DELETE_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETAIN_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HAND_OVER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FETCH_THERE_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    BATCH_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PLAN_COMMAND_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RUN_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STRING_FIELD_NUMBER: _ClassVar[int]
    none: Nothing
    boolean: bool
    integer: int
    big_integer: bytes
    real: float
    text: str
    data: bytes
    buffer: Bytes
    packed: bytes
    composite: Composite
    tuple: Items
    list: Items
    dict: Table
    set: Items
    frozenset: Items
    range: Span
    slice: Span
    complex: Complex
    array: Array
    tensor: Tensor
    parameter: Parameter
    size: Size
    device: Device
    dtype: Dtype
    script_module: Script
    script_function: Script
    traced_module: Script
    wrapper: Wrapper
    logging_tensor: Link
    plus_is_minus_tensor: Link
    placeholder: PlaceHolder
    fixed_precision_tensor: Link
    additive_sharing_tensor: AdditiveSharing
    polynomial_tensor: Link
    object_pointer: Pointer
    pointer_tensor: Pointer
    multi_pointer: MultiPointer
    callable_pointer: Pointer
    string_pointer: Pointer
    object_wrapper: ObjectWrapper
    ref: Ref
    tensor_meta: TensorMeta
    object_meta: ObjectMeta
    same_as: SameAs
    pointer_plan: Pointer
    pointer_protocol: Pointer
    plan: Plan
    state: State
    protocol: Protocol
    role_protocol: RoleProtocol
    message: Message
    operation: Operation
    object_message: ObjectMessage
    object_request_message: ObjectRequestMessage
    is_none_message: IsNoneMessage
    get_shape_message: GetShapeMessage
    force_object_delete_message: ForceObjectDeleteMessage
    retain_message: RetainMessage
    release_message: ReleaseMessage
    hand_over_message: HandOverMessage
    fetch_there_message: FetchThereMessage
    search_message: SearchMessage
    batch_message: BatchMessage
    plan_command_message: PlanCommandMessage
    error_message: ErrorMessage
    publish_message: PublishMessage
    claim_message: ClaimMessage
    run_message: RunMessage
    string: String
    def __init__(self, none: _Optional[_Union[Nothing, str]] = ..., boolean: bool = ..., integer: _Optional[int] = ..., big_integer: _Optional[bytes] = ..., real: _Optional[float] = ..., text: _Optional[str] = ..., data: _Optional[bytes] = ..., buffer: _Optional[_Union[Bytes, _Mapping]] = ..., packed: _Optional[bytes] = ..., composite: _Optional[_Union[Composite, _Mapping]] = ..., tuple: _Optional[_Union[Items, _Mapping]] = ..., list: _Optional[_Union[Items, _Mapping]] = ..., dict: _Optional[_Union[Table, _Mapping]] = ..., set: _Optional[_Union[Items, _Mapping]] = ..., frozenset: _Optional[_Union[Items, _Mapping]] = ..., range: _Optional[_Union[Span, _Mapping]] = ..., slice: _Optional[_Union[Span, _Mapping]] = ..., complex: _Optional[_Union[Complex, _Mapping]] = ..., array: _Optional[_Union[Array, _Mapping]] = ..., tensor: _Optional[_Union[Tensor, _Mapping]] = ..., parameter: _Optional[_Union[Parameter, _Mapping]] = ..., size: _Optional[_Union[Size, _Mapping]] = ..., device: _Optional[_Union[Device, _Mapping]] = ..., dtype: _Optional[_Union[Dtype, _Mapping]] = ..., script_module: _Optional[_Union[Script, _Mapping]] = ..., script_function: _Optional[_Union[Script, _Mapping]] = ..., traced_module: _Optional[_Union[Script, _Mapping]] = ..., wrapper: _Optional[_Union[Wrapper, _Mapping]] = ..., logging_tensor: _Optional[_Union[Link, _Mapping]] = ..., plus_is_minus_tensor: _Optional[_Union[Link, _Mapping]] = ..., placeholder: _Optional[_Union[PlaceHolder, _Mapping]] = ..., fixed_precision_tensor: _Optional[_Union[Link, _Mapping]] = ..., additive_sharing_tensor: _Optional[_Union[AdditiveSharing, _Mapping]] = ..., polynomial_tensor: _Optional[_Union[Link, _Mapping]] = ..., object_pointer: _Optional[_Union[Pointer, _Mapping]] = ..., pointer_tensor: _Optional[_Union[Pointer, _Mapping]] = ..., multi_pointer: _Optional[_Union[MultiPointer, _Mapping]] = ..., callable_pointer: _Optional[_Union[Pointer, _Mapping]] = ..., string_pointer: _Optional[_Union[Pointer, _Mapping]] = ..., object_wrapper: _Optional[_Union[ObjectWrapper, _Mapping]] = ..., ref: _Optional[_Union[Ref, _Mapping]] = ..., tensor_meta: _Optional[_Union[TensorMeta, _Mapping]] = ..., object_meta: _Optional[_Union[ObjectMeta, _Mapping]] = ..., same_as: _Optional[_Union[SameAs, _Mapping]] = ..., pointer_plan: _Optional[_Union[Pointer, _Mapping]] = ..., pointer_protocol: _Optional[_Union[Pointer, _Mapping]] = ..., plan: _Optional[_Union[Plan, _Mapping]] = ..., state: _Optional[_Union[State, _Mapping]] = ..., protocol: _Optional[_Union[Protocol, _Mapping]] = ..., role_protocol: _Optional[_Union[RoleProtocol, _Mapping]] = ..., message: _Optional[_Union[Message, _Mapping]] = ..., operation: _Optional[_Union[Operation, _Mapping]] = ..., object_message: _Optional[_Union[ObjectMessage, _Mapping]] = ..., object_request_message: _Optional[_Union[ObjectRequestMessage, _Mapping]] = ..., is_none_message: _Optional[_Union[IsNoneMessage, _Mapping]] = ..., get_shape_message: _Optional[_Union[GetShapeMessage, _Mapping]] = ..., force_object_delete_message: _Optional[_Union[ForceObjectDeleteMessage, _Mapping]] = ..., retain_message: _Optional[_Union[RetainMessage, _Mapping]] = ..., release_message: _Optional[_Union[ReleaseMessage, _Mapping]] = ..., hand_over_message: _Optional[_Union[HandOverMessage, _Mapping]] = ..., fetch_there_message: _Optional[_Union[FetchThereMessage, _Mapping]] = ..., search_message: _Optional[_Union[SearchMessage, _Mapping]] = ..., batch_message: _Optional[_Union[BatchMessage, _Mapping]] = ..., plan_command_message: _Optional[_Union[PlanCommandMessage, _Mapping]] = ..., error_message: _Optional[_Union[ErrorMessage, _Mapping]] = ..., publish_message: _Optional[_Union[PublishMessage, _Mapping]] = ..., claim_message: _Optional[_Union[ClaimMessage, _Mapping]] = ..., run_message: _Optional[_Union[RunMessage, _Mapping]] = ..., string: _Optional[_Union[String, _Mapping]] = ...) -> None: ...

class Composite(_message.Message):
    __slots__ = ("code", "parts")
    CODE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    code: int
    parts: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, code: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class Id(_message.Message):
    __slots__ = ("number", "wide", "name", "other")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WIDE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    number: int
    wide: bytes
    name: str
    other: bytes
    def __init__(self, number: _Optional[int] = ..., wide: _Optional[bytes] = ..., name: _Optional[str] = ..., other: _Optional[bytes] = ...) -> None: ...

class Tags(_message.Message):
    __slots__ = ("words",)
    WORDS_FIELD_NUMBER: _ClassVar[int]
    words: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, words: _Optional[_Iterable[str]] = ...) -> None: ...

class Bytes(_message.Message):
    __slots__ = ("inline", "frame")
    INLINE_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    inline: bytes
    frame: int
    def __init__(self, inline: _Optional[bytes] = ..., frame: _Optional[int] = ...) -> None: ...

class Items(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, parts: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class Table(_message.Message):
    __slots__ = ("keys", "values")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[Value]
    values: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, keys: _Optional[_Iterable[_Union[Value, _Mapping]]] = ..., values: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("start", "stop", "step")
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    start: Value
    stop: Value
    step: Value
    def __init__(self, start: _Optional[_Union[Value, _Mapping]] = ..., stop: _Optional[_Union[Value, _Mapping]] = ..., step: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Complex(_message.Message):
    __slots__ = ("real", "imag")
    REAL_FIELD_NUMBER: _ClassVar[int]
    IMAG_FIELD_NUMBER: _ClassVar[int]
    real: float
    imag: float
    def __init__(self, real: _Optional[float] = ..., imag: _Optional[float] = ...) -> None: ...

class Array(_message.Message):
    __slots__ = ("dtype", "shape", "data")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: Bytes
    def __init__(self, dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[_Union[Bytes, _Mapping]] = ...) -> None: ...

class TensorData(_message.Message):
    __slots__ = ("dtype", "shape", "data", "quantization")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    QUANTIZATION_FIELD_NUMBER: _ClassVar[int]
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: Bytes
    quantization: Quantization
    def __init__(self, dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[_Union[Bytes, _Mapping]] = ..., quantization: _Optional[_Union[Quantization, _Mapping]] = ...) -> None: ...

class Quantization(_message.Message):
    __slots__ = ("scale", "zero_point")
    SCALE_FIELD_NUMBER: _ClassVar[int]
    ZERO_POINT_FIELD_NUMBER: _ClassVar[int]
    scale: float
    zero_point: int
    def __init__(self, scale: _Optional[float] = ..., zero_point: _Optional[int] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("id", "data", "other", "grad", "tags", "description", "format", "requires_grad")
    ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    GRAD_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_GRAD_FIELD_NUMBER: _ClassVar[int]
    id: Id
    data: TensorData
    other: Value
    grad: Value
    tags: Tags
    description: str
    format: str
    requires_grad: bool
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., data: _Optional[_Union[TensorData, _Mapping]] = ..., other: _Optional[_Union[Value, _Mapping]] = ..., grad: _Optional[_Union[Value, _Mapping]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., description: _Optional[str] = ..., format: _Optional[str] = ..., requires_grad: bool = ...) -> None: ...

class Parameter(_message.Message):
    __slots__ = ("id", "tensor", "requires_grad", "grad")
    ID_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_GRAD_FIELD_NUMBER: _ClassVar[int]
    GRAD_FIELD_NUMBER: _ClassVar[int]
    id: Id
    tensor: Tensor
    requires_grad: bool
    grad: Value
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., tensor: _Optional[_Union[Tensor, _Mapping]] = ..., requires_grad: bool = ..., grad: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Size(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, parts: _Optional[_Iterable[int]] = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ("kind", "index")
    KIND_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    kind: str
    index: int
    def __init__(self, kind: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class Dtype(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Script(_message.Message):
    __slots__ = ("archive",)
    ARCHIVE_FIELD_NUMBER: _ClassVar[int]
    archive: Bytes
    def __init__(self, archive: _Optional[_Union[Bytes, _Mapping]] = ...) -> None: ...

class Wrapper(_message.Message):
    __slots__ = ("child", "requires_grad", "is_param", "id", "tags", "description")
    CHILD_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_GRAD_FIELD_NUMBER: _ClassVar[int]
    IS_PARAM_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    child: Value
    requires_grad: bool
    is_param: bool
    id: Id
    tags: Tags
    description: str
    def __init__(self, child: _Optional[_Union[Value, _Mapping]] = ..., requires_grad: bool = ..., is_param: bool = ..., id: _Optional[_Union[Id, _Mapping]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., description: _Optional[str] = ...) -> None: ...

class Link(_message.Message):
    __slots__ = ("id", "tags", "description", "attributes", "child")
    ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    CHILD_FIELD_NUMBER: _ClassVar[int]
    id: Id
    tags: Tags
    description: str
    attributes: Table
    child: Value
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., description: _Optional[str] = ..., attributes: _Optional[_Union[Table, _Mapping]] = ..., child: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Pointer(_message.Message):
    __slots__ = ("id", "id_at_location", "location", "point_to_attr", "tags", "description", "garbage_collect_data", "meta")
    ID_FIELD_NUMBER: _ClassVar[int]
    ID_AT_LOCATION_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    POINT_TO_ATTR_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    GARBAGE_COLLECT_DATA_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    id: Id
    id_at_location: Id
    location: Id
    point_to_attr: str
    tags: Tags
    description: str
    garbage_collect_data: bool
    meta: TensorMeta
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., id_at_location: _Optional[_Union[Id, _Mapping]] = ..., location: _Optional[_Union[Id, _Mapping]] = ..., point_to_attr: _Optional[str] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., description: _Optional[str] = ..., garbage_collect_data: bool = ..., meta: _Optional[_Union[TensorMeta, _Mapping]] = ...) -> None: ...

class MultiPointer(_message.Message):
    __slots__ = ("id", "tags", "description", "pointers")
    ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    POINTERS_FIELD_NUMBER: _ClassVar[int]
    id: Id
    tags: Tags
    description: str
    pointers: Value
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., description: _Optional[str] = ..., pointers: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class AdditiveSharing(_message.Message):
    __slots__ = ("id", "tags", "description", "pointers", "crypto_provider", "protocol", "insecure")
    ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    POINTERS_FIELD_NUMBER: _ClassVar[int]
    CRYPTO_PROVIDER_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    INSECURE_FIELD_NUMBER: _ClassVar[int]
    id: Id
    tags: Tags
    description: str
    pointers: Value
    crypto_provider: Id
    protocol: str
    insecure: bool
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., description: _Optional[str] = ..., pointers: _Optional[_Union[Value, _Mapping]] = ..., crypto_provider: _Optional[_Union[Id, _Mapping]] = ..., protocol: _Optional[str] = ..., insecure: bool = ...) -> None: ...

class ObjectWrapper(_message.Message):
    __slots__ = ("id", "object", "tags", "description")
    ID_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    id: Id
    object: Value
    tags: Tags
    description: str
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., object: _Optional[_Union[Value, _Mapping]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., description: _Optional[str] = ...) -> None: ...

class Ref(_message.Message):
    __slots__ = ("id", "attribute")
    ID_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    id: Id
    attribute: str
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., attribute: _Optional[str] = ...) -> None: ...

class TensorMeta(_message.Message):
    __slots__ = ("shape", "dtype", "requires_grad", "device")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_GRAD_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    shape: Size
    dtype: Dtype
    requires_grad: bool
    device: Device
    def __init__(self, shape: _Optional[_Union[Size, _Mapping]] = ..., dtype: _Optional[_Union[Dtype, _Mapping]] = ..., requires_grad: bool = ..., device: _Optional[_Union[Device, _Mapping]] = ...) -> None: ...

class ObjectMeta(_message.Message):
    __slots__ = ("kind",)
    KIND_FIELD_NUMBER: _ClassVar[int]
    kind: str
    def __init__(self, kind: _Optional[str] = ...) -> None: ...

class SameAs(_message.Message):
    __slots__ = ("position", "meta")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    position: int
    meta: Value
    def __init__(self, position: _Optional[int] = ..., meta: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class String(_message.Message):
    __slots__ = ("text", "id", "tags", "description")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    text: str
    id: Id
    tags: Tags
    description: str
    def __init__(self, text: _Optional[str] = ..., id: _Optional[_Union[Id, _Mapping]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., description: _Optional[str] = ...) -> None: ...

class PlaceHolder(_message.Message):
    __slots__ = ("id", "tags", "description", "child")
    ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CHILD_FIELD_NUMBER: _ClassVar[int]
    id: Id
    tags: Tags
    description: str
    child: Value
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., description: _Optional[str] = ..., child: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class State(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[StateEntry]
    def __init__(self, parts: _Optional[_Iterable[_Union[StateEntry, _Mapping]]] = ...) -> None: ...

class StateEntry(_message.Message):
    __slots__ = ("name", "kinds", "tensor")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    kinds: _containers.RepeatedScalarFieldContainer[str]
    tensor: Value
    def __init__(self, name: _Optional[str] = ..., kinds: _Optional[_Iterable[str]] = ..., tensor: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Plan(_message.Message):
    __slots__ = ("id", "name", "is_built", "inputs", "program", "state", "optimizers", "tags", "description", "translations")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_BUILT_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZERS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TRANSLATIONS_FIELD_NUMBER: _ClassVar[int]
    id: Id
    name: str
    is_built: bool
    inputs: int
    program: Program
    state: State
    optimizers: _containers.RepeatedCompositeFieldContainer[Value]
    tags: Tags
    description: str
    translations: _containers.RepeatedCompositeFieldContainer[Translation]
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., name: _Optional[str] = ..., is_built: bool = ..., inputs: _Optional[int] = ..., program: _Optional[_Union[Program, _Mapping]] = ..., state: _Optional[_Union[State, _Mapping]] = ..., optimizers: _Optional[_Iterable[_Union[Value, _Mapping]]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., description: _Optional[str] = ..., translations: _Optional[_Iterable[_Union[Translation, _Mapping]]] = ...) -> None: ...

class Translation(_message.Message):
    __slots__ = ("kind", "data")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    kind: str
    data: Value
    def __init__(self, kind: _Optional[str] = ..., data: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Program(_message.Message):
    __slots__ = ("arguments", "operations", "outputs")
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    arguments: _containers.RepeatedCompositeFieldContainer[PlanArgument]
    operations: _containers.RepeatedCompositeFieldContainer[PlanOperation]
    outputs: Value
    def __init__(self, arguments: _Optional[_Iterable[_Union[PlanArgument, _Mapping]]] = ..., operations: _Optional[_Iterable[_Union[PlanOperation, _Mapping]]] = ..., outputs: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class PlanArgument(_message.Message):
    __slots__ = ("name", "pattern", "by_name", "may_be_left_out")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    BY_NAME_FIELD_NUMBER: _ClassVar[int]
    MAY_BE_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    pattern: Value
    by_name: bool
    may_be_left_out: bool
    def __init__(self, name: _Optional[str] = ..., pattern: _Optional[_Union[Value, _Mapping]] = ..., by_name: bool = ..., may_be_left_out: bool = ...) -> None: ...

class PlanOperation(_message.Message):
    __slots__ = ("cmd_name", "cmd_args", "cmd_kwargs", "results")
    CMD_NAME_FIELD_NUMBER: _ClassVar[int]
    CMD_ARGS_FIELD_NUMBER: _ClassVar[int]
    CMD_KWARGS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    cmd_name: str
    cmd_args: _containers.RepeatedCompositeFieldContainer[Value]
    cmd_kwargs: Table
    results: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, cmd_name: _Optional[str] = ..., cmd_args: _Optional[_Iterable[_Union[Value, _Mapping]]] = ..., cmd_kwargs: _Optional[_Union[Table, _Mapping]] = ..., results: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class Protocol(_message.Message):
    __slots__ = ("id", "tags", "description", "workers_resolved", "plans", "names")
    ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    WORKERS_RESOLVED_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    id: Id
    tags: Tags
    description: str
    workers_resolved: bool
    plans: _containers.RepeatedCompositeFieldContainer[Assignment]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., description: _Optional[str] = ..., workers_resolved: bool = ..., plans: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("place", "plan")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    place: Id
    plan: Value
    def __init__(self, place: _Optional[_Union[Id, _Mapping]] = ..., plan: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class RoleProtocol(_message.Message):
    __slots__ = ("id", "tags", "description", "name", "choreography", "plans", "states", "places")
    ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHOREOGRAPHY_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    id: Id
    tags: Tags
    description: str
    name: str
    choreography: Choreography
    plans: _containers.RepeatedCompositeFieldContainer[Value]
    states: _containers.RepeatedCompositeFieldContainer[Value]
    places: Places
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., description: _Optional[str] = ..., name: _Optional[str] = ..., choreography: _Optional[_Union[Choreography, _Mapping]] = ..., plans: _Optional[_Iterable[_Union[Value, _Mapping]]] = ..., states: _Optional[_Iterable[_Union[Value, _Mapping]]] = ..., places: _Optional[_Union[Places, _Mapping]] = ...) -> None: ...

class Choreography(_message.Message):
    __slots__ = ("roles", "inputs", "states", "steps", "outputs")
    ROLES_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    roles: _containers.RepeatedScalarFieldContainer[str]
    inputs: _containers.RepeatedScalarFieldContainer[int]
    states: _containers.RepeatedScalarFieldContainer[int]
    steps: _containers.RepeatedCompositeFieldContainer[Value]
    outputs: Value
    def __init__(self, roles: _Optional[_Iterable[str]] = ..., inputs: _Optional[_Iterable[int]] = ..., states: _Optional[_Iterable[int]] = ..., steps: _Optional[_Iterable[_Union[Value, _Mapping]]] = ..., outputs: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Places(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[Id]
    def __init__(self, parts: _Optional[_Iterable[_Union[Id, _Mapping]]] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("contents",)
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    contents: Value
    def __init__(self, contents: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Operation(_message.Message):
    __slots__ = ("cmd_name", "cmd_args", "cmd_kwargs", "return_ids", "grad_enabled")
    CMD_NAME_FIELD_NUMBER: _ClassVar[int]
    CMD_ARGS_FIELD_NUMBER: _ClassVar[int]
    CMD_KWARGS_FIELD_NUMBER: _ClassVar[int]
    RETURN_IDS_FIELD_NUMBER: _ClassVar[int]
    GRAD_ENABLED_FIELD_NUMBER: _ClassVar[int]
    cmd_name: str
    cmd_args: _containers.RepeatedCompositeFieldContainer[Value]
    cmd_kwargs: Table
    return_ids: _containers.RepeatedCompositeFieldContainer[Id]
    grad_enabled: bool
    def __init__(self, cmd_name: _Optional[str] = ..., cmd_args: _Optional[_Iterable[_Union[Value, _Mapping]]] = ..., cmd_kwargs: _Optional[_Union[Table, _Mapping]] = ..., return_ids: _Optional[_Iterable[_Union[Id, _Mapping]]] = ..., grad_enabled: bool = ...) -> None: ...

class ObjectMessage(_message.Message):
    __slots__ = ("contents", "obj_id", "published", "claimant")
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    OBJ_ID_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    CLAIMANT_FIELD_NUMBER: _ClassVar[int]
    contents: Value
    obj_id: Id
    published: bool
    claimant: Id
    def __init__(self, contents: _Optional[_Union[Value, _Mapping]] = ..., obj_id: _Optional[_Union[Id, _Mapping]] = ..., published: bool = ..., claimant: _Optional[_Union[Id, _Mapping]] = ...) -> None: ...

class ObjectRequestMessage(_message.Message):
    __slots__ = ("contents",)
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    contents: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, contents: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class IsNoneMessage(_message.Message):
    __slots__ = ("contents",)
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    contents: Ref
    def __init__(self, contents: _Optional[_Union[Ref, _Mapping]] = ...) -> None: ...

class GetShapeMessage(_message.Message):
    __slots__ = ("contents",)
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    contents: Ref
    def __init__(self, contents: _Optional[_Union[Ref, _Mapping]] = ...) -> None: ...

class ForceObjectDeleteMessage(_message.Message):
    __slots__ = ("contents",)
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    contents: Id
    def __init__(self, contents: _Optional[_Union[Id, _Mapping]] = ...) -> None: ...

class RetainMessage(_message.Message):
    __slots__ = ("contents",)
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    contents: Id
    def __init__(self, contents: _Optional[_Union[Id, _Mapping]] = ...) -> None: ...

class ReleaseMessage(_message.Message):
    __slots__ = ("contents",)
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    contents: _containers.RepeatedCompositeFieldContainer[Id]
    def __init__(self, contents: _Optional[_Iterable[_Union[Id, _Mapping]]] = ...) -> None: ...

class HandOverMessage(_message.Message):
    __slots__ = ("contents", "destination", "new_id", "keep_pointer")
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    NEW_ID_FIELD_NUMBER: _ClassVar[int]
    KEEP_POINTER_FIELD_NUMBER: _ClassVar[int]
    contents: Id
    destination: Id
    new_id: Id
    keep_pointer: bool
    def __init__(self, contents: _Optional[_Union[Id, _Mapping]] = ..., destination: _Optional[_Union[Id, _Mapping]] = ..., new_id: _Optional[_Union[Id, _Mapping]] = ..., keep_pointer: bool = ...) -> None: ...

class FetchThereMessage(_message.Message):
    __slots__ = ("contents",)
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    contents: Id
    def __init__(self, contents: _Optional[_Union[Id, _Mapping]] = ...) -> None: ...

class SearchMessage(_message.Message):
    __slots__ = ("contents",)
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    contents: Value
    def __init__(self, contents: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class BatchMessage(_message.Message):
    __slots__ = ("contents",)
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    contents: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, contents: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class PlanCommandMessage(_message.Message):
    __slots__ = ("contents", "command_name")
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    COMMAND_NAME_FIELD_NUMBER: _ClassVar[int]
    contents: _containers.RepeatedCompositeFieldContainer[Value]
    command_name: str
    def __init__(self, contents: _Optional[_Iterable[_Union[Value, _Mapping]]] = ..., command_name: _Optional[str] = ...) -> None: ...

class ErrorMessage(_message.Message):
    __slots__ = ("contents",)
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    contents: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, contents: _Optional[_Iterable[str]] = ...) -> None: ...

class PublishMessage(_message.Message):
    __slots__ = ("contents",)
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    contents: Id
    def __init__(self, contents: _Optional[_Union[Id, _Mapping]] = ...) -> None: ...

class ClaimMessage(_message.Message):
    __slots__ = ("contents",)
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    contents: Id
    def __init__(self, contents: _Optional[_Union[Id, _Mapping]] = ...) -> None: ...

class RunMessage(_message.Message):
    __slots__ = ("contents", "run_id", "name", "parties", "provider", "options", "return_id")
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTIES_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    RETURN_ID_FIELD_NUMBER: _ClassVar[int]
    contents: _containers.RepeatedCompositeFieldContainer[Value]
    run_id: Id
    name: str
    parties: _containers.RepeatedCompositeFieldContainer[Id]
    provider: Id
    options: Table
    return_id: Id
    def __init__(self, contents: _Optional[_Iterable[_Union[Value, _Mapping]]] = ..., run_id: _Optional[_Union[Id, _Mapping]] = ..., name: _Optional[str] = ..., parties: _Optional[_Iterable[_Union[Id, _Mapping]]] = ..., provider: _Optional[_Union[Id, _Mapping]] = ..., options: _Optional[_Union[Table, _Mapping]] = ..., return_id: _Optional[_Union[Id, _Mapping]] = ...) -> None: ...
