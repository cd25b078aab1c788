"""Requests and responses of the HTTP API of a node. All fields have bounds; none carries data values."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from syft.core.id_provider import MAX_ID_CHARS

YEAR = 366 * 86400
# Names are normalized later, which may shorten them; see syft.grid.identity.names.
UserName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Password = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Reason = Annotated[str, StringConstraints(max_length=500)]
RowId = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
Role = Literal["owner", "user"]
# An id as text, since 128-bit numbers exceed the range of many JSON parsers.
IdText = Annotated[str, BeforeValidator(str)]
Seconds = Annotated[float, Field(gt=0, le=YEAR, allow_inf_nan=False)]


class RequestBody(BaseModel):
    """A request body: no unknown fields, and no type conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class Refusal(BaseModel):
    """The reason of a refusal."""

    detail: str


class Login(RequestBody):
    """A user name and password."""

    user: UserName
    password: Password


class IssuedToken(BaseModel):
    """A token, shown once."""

    token: str
    token_id: str
    user: str
    role: str
    expires: float = Field(description="seconds since 1970")


class Myself(BaseModel):
    """The caller's identity at this node."""

    node: str
    user: str | None = Field(description="null at a node without tokens")
    role: str
    may: list[str]
    expires: float | None = Field(description="expiry of the token, in seconds since 1970")
    objects: int
    bytes: int


class NewToken(RequestBody):
    """A token to issue."""

    user: UserName
    role: Role = "user"
    seconds: Seconds = Field(default=30 * 86400, description="its lifetime")


class Revocation(RequestBody):
    """A token to revoke, by itself or by its id; or all tokens of a user."""

    token: str | None = Field(default=None, min_length=1, max_length=4096)
    token_id: str | None = Field(default=None, pattern=r"^[0-9a-f]{32}$", max_length=32)
    user: UserName | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum(part is not None for part in (self.token, self.token_id, self.user)) != 1:
            raise ValueError("pass exactly one of token, token_id and user")
        return self


class NewUser(RequestBody):
    """A user to add."""

    user: UserName
    password: Password
    role: Role = "user"


class NewPassword(RequestBody):
    """A new password; users who change their own also pass the present one."""

    password: Password
    current: Password | None = None


class AccountRow(BaseModel):
    """A user."""

    user: str
    role: str
    added: float


class ObjectRow(BaseModel):
    """The description of an object, without its values."""

    id: str = Field(description="as text, since 128-bit numbers exceed the range of many JSON parsers")
    kind: str
    shape: list[int] | None
    dtype: str | None
    tags: list[str]
    description: str | None
    owner: str | None = Field(description="null: the owner of the node")
    published: bool
    size: int | None = Field(description="bytes in memory; null if unknown, or if the caller may not read it")


class Sharing(RequestBody):
    """The readers of a data set and of all results from it alone; replaces the previous ones."""

    users: list[UserName] = Field(default=[], max_length=1000)
    public: bool = Field(default=False, description="every user may read it")


class DataUsed(BaseModel):
    """A data set that a result was computed from."""

    id: str
    name: str
    spec: str
    rows: int | None


class ReviewWarning(BaseModel):
    """A warning about a requested result."""

    kind: str
    text: str


class Review(BaseModel):
    """The outcome of a review, for owners only: it depends on private values."""

    at: float
    warnings: list[ReviewWarning]
    notes: list[str] = Field(description="what was checked, and what could not be checked")
    preview: list[dict[str, Any]] = Field(description="values, or statistics and a histogram, of each object")
    compared: list[str] = Field(description="the earlier releases that the result was compared with")


class RequestRow(BaseModel):
    """A request for the release of a result."""

    id: str
    user: IdText
    object: IdText
    kind: str
    shape: list[int] | None
    tags: list[str]
    reason: str
    status: str
    asked_at: float = Field(validation_alias="at")
    decided_at: float | None
    decided_by: str | None
    answer: str | None
    scope: str | None
    expires: float | None = Field(validation_alias="expires_at")
    grants: list[str]
    data: list[DataUsed] = Field(default=[], description="the data sets that the result was computed from")
    code: str = Field(default="", description="the calls that lead to the result")
    calls: int = Field(default=0, description="the number of these calls")
    other_calls: int = Field(
        default=0, description="the number of other calls that the user's vault ran before the request"
    )
    problem: str = Field(default="", description="why the code can't be verified; empty if it can")
    verified: bool | None = Field(
        default=None, description="whether running the code again gave the same value; null: not tried"
    )
    size: int | None = Field(
        default=None, validation_alias="sealed", description="bytes of the sealed copy; null if there is none"
    )
    failure: str = Field(default="", description="why there is no sealed copy")
    review: Review | None = Field(default=None, description="for owners: what the result reveals; null: not reviewed")
    specs: list[str] = Field(default=[], description="what the sealed copy holds: kind, dtype and shape of each object")


class Approval(RequestBody):
    """An approval."""

    scope: Literal["result"] = Field(default="result", description="result: the sealed copy of the request")
    seconds: Seconds | None = Field(default=None, description="its duration; null: until it is revoked")
    answer: Reason = ""


class Denial(RequestBody):
    """A denial."""

    reason: Reason = ""


class GrantRow(BaseModel):
    """An approved request."""

    id: str
    user: IdText
    scope: str = Field(description="result: the object; sources: all results from the object")
    object: IdText
    granted_at: float = Field(validation_alias="at")
    expires: float | None = Field(validation_alias="expires_at")
    revoked_at: float | None
    request: str


class NewProgram(RequestBody):
    """A program to allow: a published plan, and the data sets it may read."""

    object: str = Field(min_length=1, max_length=MAX_ID_CHARS, description="the id of the plan, or one of its tags")
    name: Annotated[str, StringConstraints(max_length=100)] = ""
    data: list[Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID_CHARS)]] = Field(
        min_length=1, max_length=100, description="the ids of the data sets that it may read"
    )
    users: list[UserName] = Field(default=[], max_length=1000)
    everybody: bool = Field(default=False, description="every user of the node may run it")
    runs: Annotated[int, Field(ge=1, le=2**31)] | None = Field(default=1, description="null: no limit")
    max_outputs: Annotated[int, Field(ge=1, le=2**40)] = Field(description="maximum number of output values per run")
    seconds: Seconds | None = Field(default=None, description="its duration; null: until it is revoked")
    hash: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")] | None = Field(
        default=None, description="the hash of the code that was read; a plan with another hash is refused"
    )

    @model_validator(mode="after")
    def _is_for_somebody(self) -> Self:
        if bool(self.users) is self.everybody:
            raise ValueError("pass either users or everybody")
        return self


class ProgramRow(BaseModel):
    """An allowed or revoked program."""

    id: str
    hash: str = Field(description="the hash of the plan's code")
    name: str
    data: list[IdText]
    users: list[str] | None = Field(description="null: everybody")
    runs: int | None = Field(description="null: no limit")
    taken: int = Field(description="the number of runs so far")
    max_outputs: int
    allowed_at: float = Field(validation_alias="at")
    allowed_by: str | None = Field(validation_alias="by")
    expires: float | None = Field(validation_alias="until")
    revoked_at: float | None


class ProgramCode(BaseModel):
    """The code of a program."""

    hash: str
    code: str
    inputs: int
    operations: int
    alters: bool = Field(description="whether it may change its arguments or its state")
    draws: bool = Field(description="whether it may draw random numbers")


class PlanCode(ProgramCode):
    """The code and the publisher of a published plan."""

    object: str = Field(description="the id of the plan")
    publisher: str | None = Field(description="null: the owner of the node")


class AllowedProgram(ProgramRow):
    """A newly allowed program, with its code."""

    code: str
    object: str = Field(description="the id of the plan")
    publisher: str | None = Field(description="null: the owner of the node")


class AuditRow(BaseModel):
    """A row of the audit log."""

    number: int
    time: float
    user: str | None
    action: str
    object: str | None
    how: str
    allowed: bool | None
    reason: str
    request: str
    hash: str


class Verified(BaseModel):
    """The audit log was verified."""

    rows: int


class NewLimit(RequestBody):
    """A limit; replaces the previous one of the same data and user."""

    data: str | None = Field(
        default=None, min_length=1, max_length=MAX_ID_CHARS,
        description="the id of a published object, or dataset:KEY; null: all data together",
    )  # fmt: skip
    user: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = Field(
        default=None, description="a user, * for each user separately; null: all users together"
    )
    epsilon: float = Field(ge=0, le=1e9, allow_inf_nan=False, description="maximum privacy loss; 0 refuses all")
    delta: float = Field(default=0.0, ge=0, le=0.5, allow_inf_nan=False, description="0 allows no Gaussian noise")


class BudgetRow(BaseModel):
    """A limit, and the budget spent of it."""

    data: str | None = Field(description="null: all data together")
    owner: str | None = Field(description="the owner of the data; null: the owner of the node")
    user: str | None = Field(description="* for each user separately; null: all users together")
    epsilon: float
    delta: float
    spent: float | None = Field(description="null: unbounded at this delta")
    left: float
    releases: int
    neighbours: str = Field(description="the neighbouring relation of epsilon: replace-one row")


class ChargeRow(BaseModel):
    """The charge of one release."""

    number: int
    at: float
    user: str
    data: list[str]
    what: str
    event: dict[str, str | float | int]


class Status(BaseModel):
    """The status of the node."""

    id: str
    owner: str
    version: dict[str, str]
    fingerprint: str
    uptime: float
    tokens: bool
    tls: bool
    durable: bool
    figures: dict[str, float]
    users: int
    published: int
    objects: int
    bytes: int
    max_objects: int
    max_bytes: int
    pending_requests: int
