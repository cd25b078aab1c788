"""Every error of the library, with its code; docs/errors.md has a section for each.

    SyftError                                  SY000
    ├── DependencyError                        SY001  an optional package is missing
    ├── RemoteError                            SY002  an error of a worker whose type is unknown here
    ├── UnsupportedOperationError              SY101  no rule for this call on this kind of tensor
    │   └── CommandNotAllowedError             SY102  no worker runs this call
    │       └── RemoteNameError                SY112  worker.remote has no such name
    ├── TensorsNotCollocatedError              SY103  operands are at different workers
    │   └── PureFrameworkTensorFoundError      SY104  a plain tensor among syft tensors
    ├── RemoteObjectFoundError                 SY105  a pointer where a local tensor is needed
    ├── InvalidTensorForRemoteGetError         SY106  remote_get on an object that is not a pointer
    ├── CannotRequestObjectAttributeError      SY107  .get() on an attribute of a remote object
    ├── ObjectNotFoundError                    SY108  a worker does not hold this id
    │   └── SpentPointerError                  SY109  the pointer's object was already fetched or moved
    ├── IdNotUniqueError                       SY110  a chosen id is in use
    ├── ResponseSignatureError                 SY111  number of results differs from the number of ids
    ├── WorkerNotFoundError                    SY201  unknown worker id
    ├── WorkerLostError                        SY202  the process of a worker ended
    │   ├── NodeLostError                      SY203  a session at a node is over
    │   │   └── NodeUnreachableError           SY204  the connection to a node failed
    │   │       └── NodeRefusedError           SY208  nothing listens at the address of a node
    │   └── ClientLostError                    SY205  the process of a simulated client ended
    ├── NodeStartError                         SY209  a launched node did not start
    ├── SessionEndedError                      SY206  the process of a session at a node ended
    ├── NotDoneError                           SY207  a call did not run, because an earlier one failed
    ├── NotPermittedError                      SY301  the owner of the data has not allowed this
    │   ├── GetNotPermittedError               SY302  the holder does not release this value
    │   ├── SendNotPermittedError              SY303  this object may not be sent
    │   └── BudgetExceededError                SY304  a release would exceed the owner's privacy budget
    ├── PrivacyError                           SY305  a query can't be answered with differential privacy
    ├── PlanCommandUnknownError                SY401  unknown plan command
    ├── PlanBuildError                         SY402  a function can't be recorded as a plan
    ├── PlanMismatchError                      SY403  a plan is called with arguments that it was not built for
    ├── MalformedPlanError                     SY404  the parts of a plan are inconsistent
    ├── PlanTranslationError                   SY405  a plan can't be translated
    ├── ProtocolError                          SY501  a protocol on shares can't be run, or was interrupted
    │   ├── PartyLostError                     SY502  a party is unreachable
    │   ├── PinnedPartyError                   SY503  a party is another node than the model was hosted with
    │   └── RunAbortedError                    SY505  another party aborted a run on shares
    ├── DriftError                             SY504  an encrypted result differs from its plaintext
    ├── TrainingError                          SY601  a worker can't train with this config or data set
    │   ├── StateLostError                     SY602  a client lost its state of an earlier round
    │   └── ClientBusyError                    SY603  a client still computes an earlier call
    ├── FederatedError                         SY604  a federated run can't go on
    ├── AuthenticationError                    SY701  invalid or expired token or password
    │   ├── InvalidUserError                   SY702  unknown user or wrong password
    │   └── TooManyAttemptsError               SY703  too many failed logins
    ├── AccountError                           SY704  a user can't be added or changed with these arguments
    ├── ExposureError                          SY705  a node would serve others without TLS and tokens
    ├── CertificateError                       SY706  a certificate or its key can't be made or used
    ├── QuotaExceededError                     SY707  a user would hold more than the node allows
    ├── ByteBudgetError                        SY708  a message needs more memory than is allowed in flight
    ├── StorageError                           SY709  the store of a node can't be used, or is damaged
    │   └── StorageFullError                   SY710  the disk or database of a node is full
    ├── ModelError                             SY711  a hosted model can't be stored, queried or deleted
    │   └── ModelNotFoundError                 SY712  no model of this name is hosted for this user
    ├── SerdeError                             SY801  bytes are not a valid message
    │   └── CompressionNotFoundError           SY802  unknown compression scheme
    ├── InvalidProtocolFileError               SY803  the table of wire codes can't be read
    ├── UndefinedProtocolTypeError             SY804  a type has no wire code
    └── UndefinedProtocolTypePropertyError     SY805  a wire code is not set

Texts say what happened and what to do next, and never contain the values of a tensor. Names of 0.2 that do not end in
`Error` are aliases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syft._lazy import missing_name as _missing_name
from syft._lazy import publish as _publish
from syft.exceptions.base import *  # noqa: F403
from syft.exceptions.manual import explain as explain
from syft.exceptions.objects import *  # noqa: F403
from syft.exceptions.services import *  # noqa: F403

_publish(__name__, globals(), list(globals()))


if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = _missing_name(__name__)


def __dir__() -> list[str]:
    found = [name for name, value in globals().items() if isinstance(value, type) and issubclass(value, Exception)]
    return sorted([*found, "explain", "route_method_exception"])
