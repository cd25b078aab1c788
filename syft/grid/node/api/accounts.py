"""HTTP routes of logins, tokens and users."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fastapi import APIRouter, HTTPException, Path, Request

from syft.exceptions import AccountError, AuthenticationError, NotPermittedError, TooManyAttemptsError
from syft.grid.identity.names import user_name
from syft.grid.identity.roles import ROLES, Capability, may
from syft.grid.node.api.access import PasswordLogin, address_of, caller, make_router, needs, refusals
from syft.grid.node.api.models import (
    AccountRow,
    IssuedToken,
    Login,
    Myself,
    NewPassword,
    NewToken,
    NewUser,
    Revocation,
)
from syft.grid.server.auth import Principal

if TYPE_CHECKING:
    from syft.grid.node.node import Node

MAX_USER = 256


def make_accounts(node: Node) -> APIRouter:
    """Return the routes of users and tokens."""
    router = make_router("accounts")
    passwords = PasswordLogin()
    _add_login(router, node, passwords)
    _add_tokens(router, node)
    _add_users(router, node, passwords)
    _add_passwords(router, node, passwords)
    return router


def _described(node: Node, token: str) -> IssuedToken:
    return IssuedToken(token=token, **dataclasses.asdict(node.identity.tokens.read(token)))


def _add_login(router: APIRouter, node: Node, passwords: PasswordLogin) -> None:
    anybody = caller(node)

    @router.post("/login", responses=refusals(429))
    async def login(given: Login, request: Request) -> IssuedToken:
        """Exchange a user name and password for a token."""
        if not node.context.authenticator.tokens:
            raise NotPermittedError("This node runs without tokens. Connect without one.")
        return await passwords.run(request, _name(given.user), _log_in, node, given, address_of(request))

    @router.get("/whoami", responses=refusals())
    def whoami(principal: Principal = anybody) -> Myself:
        """Return the caller's identity and usage."""
        identity = getattr(principal, "identity", None)
        usage = node.object_manager.ledger.usage(None if principal.role == "owner" else principal.user)
        return Myself(
            node=str(node.worker.id),
            user=principal.user,
            role=principal.role,
            may=sorted(capability.name.lower() for capability in ROLES.get(principal.role, ())),
            expires=None if identity is None else identity.expires,
            objects=usage.objects if principal.user is not None else 0,
            bytes=usage.bytes if principal.user is not None else 0,
        )


def _log_in(node: Node, given: Login, address: str) -> IssuedToken:
    try:
        token = node.identity.users.login(given.user, given.password, address)
    except TooManyAttemptsError:
        raise  # not logged, since password guessing could fill the log
    except AuthenticationError:
        node.audit.write(_name(given.user), "login", how="password", allowed=False, reason=f"from {address}")
        raise
    answer = _described(node, token)
    node.audit.write(answer.user, "login", how="password", allowed=True, reason=f"from {address}")
    return answer


def _name(user: str) -> str:
    try:
        return user_name(user)
    except AccountError:
        return "?"


def _add_tokens(router: APIRouter, node: Node) -> None:
    owner = needs(node, Capability.MANAGE_USERS)

    @router.post("/tokens", status_code=201, responses=refusals(400))
    def issue_token(given: NewToken, principal: Principal = owner) -> IssuedToken:
        """Issue a token for a user, without a password."""
        answer = _described(node, node.identity.tokens.issue(given.user, given.role, given.seconds))
        node.audit.write(principal.user, "issue token", allowed=True, reason=f"for {answer.user}, role {answer.role}")
        return answer

    @router.post("/tokens/revoke", status_code=204, responses=refusals(400))
    def revoke_token(given: Revocation, principal: Principal = owner) -> None:
        """Revoke a token, or all present tokens of a user."""
        tokens = node.identity.tokens
        if given.user is not None:
            tokens.revoke_user(given.user)
            what = f"all of {_name(given.user)}"
        else:
            token_id = given.token_id or _id_of(node, given.token or "")
            tokens.revoke(token_id)
            what = token_id
        node.audit.write(principal.user, "revoke token", allowed=True, reason=what)


def _id_of(node: Node, token: str) -> str:
    try:
        return str(node.identity.tokens.read(token).token_id)
    except AuthenticationError as error:  # about the given token, not about the caller's
        raise HTTPException(400, f"Nothing to revoke: {error}") from None


def _add_users(router: APIRouter, node: Node, passwords: PasswordLogin) -> None:
    owner = needs(node, Capability.MANAGE_USERS)
    users = node.identity.users

    @router.get("/users", responses=refusals())
    def list_users(principal: Principal = owner) -> list[AccountRow]:
        """List the users that have a password."""
        return [AccountRow(**dataclasses.asdict(account)) for account in users.list()]

    @router.post("/users", status_code=201, responses=refusals(400, 409, 429))
    async def add_user(given: NewUser, request: Request, principal: Principal = owner) -> AccountRow:
        """Add a user."""
        if given.user in users:
            raise HTTPException(409, f"User {user_name(given.user)!r} already exists. Choose another name.")
        name = await passwords.run(request, _name(given.user), users.add, given.user, given.password, given.role)
        node.audit.write(principal.user, "add user", allowed=True, reason=f"{name}, role {given.role}")
        return next(AccountRow(**dataclasses.asdict(account)) for account in users.list() if account.user == name)

    @router.delete("/users/{user}", status_code=204, responses=refusals(400, 404))
    def remove_user(user: str = Path(min_length=1, max_length=MAX_USER), principal: Principal = owner) -> None:
        """Remove a user; the user's tokens are revoked, the objects stay."""
        _check_there(node, user)
        users.remove(user)
        node.audit.write(principal.user, "remove user", allowed=True, reason=_name(user))


def _check_there(node: Node, user: str) -> str:
    name = user_name(user)
    if name not in node.identity.users:
        raise HTTPException(404, f"There is no user {name!r} with a password.")
    return name


def _add_passwords(router: APIRouter, node: Node, passwords: PasswordLogin) -> None:
    users, anybody = node.identity.users, caller(node)

    @router.put("/users/{user}/password", status_code=204, responses=refusals(400, 404, 429))
    async def change_password(
        given: NewPassword,
        request: Request,
        user: str = Path(min_length=1, max_length=MAX_USER),
        principal: Principal = anybody,
    ) -> None:
        """Change the caller's password, or as an owner any password. All tokens of the user are revoked."""
        if may(principal.role, Capability.MANAGE_USERS):
            name = _check_there(node, user)
        else:
            name = user_name(user)
            if principal.user is None or name != principal.user:
                raise NotPermittedError("Only an owner of the node may change the password of another user.")
            if given.current is None:
                raise HTTPException(400, "Pass your present password as current.")
            await passwords.run(request, name, users.verify, name, given.current, address_of(request))
        await passwords.run(request, name, users.change, name, given.password)
        node.audit.write(principal.user, "change password", allowed=True, reason=name)
