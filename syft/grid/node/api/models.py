"""What the HTTP API of a node takes and gives. Every text and number has bounds; values of data are in none."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from syft.core.id_provider import MAX_ID_CHARS

YEAR = 366 * 86400
# Names are put into their one form later, which may make them shorter; see syft.grid.identity.names.
UserName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Password = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Reason = Annotated[str, StringConstraints(max_length=500)]
RowId = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
Role = Literal["owner", "user"]
Seconds = Annotated[float, Field(gt=0, le=YEAR, allow_inf_nan=False)]


class RequestBody(BaseModel):
    """Something that came in: with the fields that are known, of exactly their types, and no others."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class Refusal(BaseModel):
    """Why something was refused."""

    detail: str


class Login(RequestBody):
    """A user and its password."""

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
    """Who the caller is at this node."""

    node: str
    user: str | None = Field(description="null where no tokens are asked for")
    role: str
    may: list[str]
    expires: float | None = Field(description="when the token ends, in seconds since 1970")
    objects: int
    bytes: int


class NewToken(RequestBody):
    """Whom a token is for."""

    user: UserName
    role: Role = "user"
    seconds: Seconds = Field(default=30 * 86400, description="how long it is good")


class Revocation(RequestBody):
    """What to revoke: one token, by itself or by its id; or all that a user has."""

    token: str | None = Field(default=None, min_length=1, max_length=4096)
    token_id: str | None = Field(default=None, pattern=r"^[0-9a-f]{32}$", max_length=32)
    user: UserName | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum(part is not None for part in (self.token, self.token_id, self.user)) != 1:
            raise ValueError("give one of token, token_id and user")
        return self


class NewUser(RequestBody):
    """A user to add."""

    user: UserName
    password: Password
    role: Role = "user"


class NewPassword(RequestBody):
    """Another password; who changes its own also gives the one that it has."""

    password: Password
    current: Password | None = None


class AccountRow(BaseModel):
    """A user."""

    user: str
    role: str
    added: float


class ObjectRow(BaseModel):
    """What may be known of an object: never its values."""

    id: str = Field(description="as text, as numbers of 128 bits are too long for JSON elsewhere")
    kind: str
    shape: list[int] | None
    dtype: str | None
    tags: list[str]
    description: str | None
    owner: str | None = Field(description="null: the owner of the node")
    published: bool
    size: int | None = Field(description="bytes in memory; null if the caller may not read it, or it is not known")


class Sharing(RequestBody):
    """Who may have a data set, and all that derives from it alone; in place of what was said before."""

    users: list[UserName] = Field(default=[], max_length=1000)
    public: bool = Field(default=False, description="everybody may")


class DataUsed(BaseModel):
    """A data set that a result was computed from."""

    id: str
    name: str
    spec: str
    rows: int | None


class RequestRow(BaseModel):
    """A wish that a result be released."""

    id: str
    user: str
    object: str
    kind: str
    shape: list[int] | None
    tags: list[str]
    reason: str
    status: str
    asked_at: float
    decided_at: float | None
    decided_by: str | None
    answer: str | None
    scope: str | None
    expires: float | None
    grants: list[str]
    data: list[DataUsed] = Field(description="the data sets that the result was computed from")
    code: str = Field(description="the calls that lead to the result")
    calls: int = Field(description="the number of these calls")
    other_calls: int = Field(description="the number of other calls that the user's vault ran before the request")
    problem: str = Field(description="why the code can't be verified; empty if it can")
    verified: bool | None = Field(description="whether running the code again gave the same value; null: not tried")
    size: int | None = Field(description="bytes of the sealed copy; null if there is none")
    failure: str = Field(description="why there is no sealed copy")
    specs: list[str] = Field(description="what the sealed copy holds: kind, dtype and shape of each object")


class Approval(RequestBody):
    """What is approved."""

    scope: Literal["result"] = Field(default="result", description="result: the sealed copy of the request")
    seconds: Seconds | None = Field(default=None, description="how long it is good; null: until it is revoked")
    answer: Reason = ""


class Denial(RequestBody):
    """Why a request is denied."""

    reason: Reason = ""


class GrantRow(BaseModel):
    """Something that was approved."""

    id: str
    user: str
    scope: str = Field(description="result: the object; sources: all that derives from the object")
    object: str
    granted_at: float
    expires: float | None
    revoked_at: float | None
    request: str


class NewProgram(RequestBody):
    """A program to allow: a plan that is published at the node, and what it may be run on."""

    object: str = Field(min_length=1, max_length=MAX_ID_CHARS, description="the id of the plan, or one of its tags")
    name: Annotated[str, StringConstraints(max_length=100)] = ""
    data: list[Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID_CHARS)]] = Field(
        min_length=1, max_length=100, description="the ids of the data sets that it may read"
    )
    users: list[UserName] = Field(default=[], max_length=1000)
    everybody: bool = Field(default=False, description="every user of the node may run it")
    runs: Annotated[int, Field(ge=1, le=2**31)] | None = Field(default=1, description="null: without a limit")
    max_outputs: Annotated[int, Field(ge=1, le=2**40)] = Field(description="how many numbers a run may give at most")
    seconds: Seconds | None = Field(default=None, description="how long it is allowed; null: until it is revoked")
    hash: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")] | None = Field(
        default=None, description="the hash of the code that was read; a plan with another hash is refused"
    )

    @model_validator(mode="after")
    def _is_for_somebody(self) -> Self:
        if bool(self.users) is self.everybody:
            raise ValueError("give users, or everybody, and not both")
        return self


class ProgramRow(BaseModel):
    """A program that is allowed, or was."""

    id: str
    hash: str = Field(description="the hash of what the plan does")
    name: str
    data: list[str]
    users: list[str] | None = Field(description="null: everybody")
    runs: int | None = Field(description="null: without a limit")
    taken: int = Field(description="how many runs were taken")
    max_outputs: int
    allowed_at: float
    allowed_by: str | None
    expires: float | None
    revoked_at: float | None


class ProgramCode(BaseModel):
    """What a program does."""

    hash: str
    code: str
    inputs: int
    operations: int
    alters: bool = Field(description="whether it may change its arguments or its state")
    draws: bool = Field(description="whether it may draw random numbers")


class PlanCode(ProgramCode):
    """What a published plan does, and who published it."""

    object: str = Field(description="the id of the plan")
    publisher: str | None = Field(description="null: the owner of the node")


class AllowedProgram(ProgramRow):
    """A program that was just allowed, with its code."""

    code: str
    object: str = Field(description="the id of the plan")
    publisher: str | None = Field(description="null: the owner of the node")


class AuditRow(BaseModel):
    """A line of the log."""

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
    """The log is whole."""

    rows: int


class NewLimit(RequestBody):
    """How much may be learnt; in place of what was said before for the same data and user."""

    data: str | None = Field(
        default=None, min_length=1, max_length=MAX_ID_CHARS,
        description="the id of a published object, or dataset:KEY; null: all data together",
    )  # fmt: skip
    user: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = Field(
        default=None, description="a user, * for each user by itself; null: all users together"
    )
    epsilon: float = Field(ge=0, le=1e9, allow_inf_nan=False, description="the privacy loss; 0 stops everything")
    delta: float = Field(default=0.0, ge=0, le=0.5, allow_inf_nan=False, description="0 allows no Gaussian noise")


class BudgetRow(BaseModel):
    """A limit, and what is spent of it."""

    data: str | None = Field(description="null: all data together")
    owner: str | None = Field(description="whose data it is; null: the owner of the node")
    user: str | None = Field(description="* for each user by itself; null: all users together")
    epsilon: float
    delta: float
    spent: float | None = Field(description="null: without a bound at this delta")
    left: float
    releases: int
    neighbours: str = Field(description="which data sets count as neighbours in epsilon: replace-one row")


class ChargeRow(BaseModel):
    """What was paid for one release."""

    number: int
    at: float
    user: str
    data: list[str]
    what: str
    event: dict[str, str | float | int]


class Status(BaseModel):
    """What the node counts."""

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
