"""Who a request's headers say is asking."""

import hmac
import json
import re
import threading
import time
from pathlib import Path

import jwt
import pytest
from a2a.compat.v0_3 import proto_utils, types
from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict
from jwt.utils import base64url_encode
from starlette.datastructures import Headers

from headrace.model.agent_card import AgentCard, AgentSecurity, SecurityScheme
from headrace.model.subjects import decode_token
from headrace_gateway.protocols.a2a.cards import agent_card
from headrace_gateway.protocols.a2a_v03.cards import readable_by_old
from headrace_gateway.refusals import CredentialsMissing, CredentialsRefused
from headrace_gateway.server.auth import authenticate
from headrace_gateway.server.auth.authenticate import Callers
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.auth.credentials_file import (
    CredentialsUnreadable,
    KnownCredentials,
    read_file,
)
from headrace_gateway.server.auth.schemes import BEARER, security_of
from tests.architecture.tree import ROOT
from tests.support.credentials import ANN, AUDIENCE, BOB, EVE, ISSUER, Issuer, Person, write
from tests.support.document import blocks
from tests.support.waiting import eventually

JWT = f"""
[jwt]
issuer = "{ISSUER}"
audience = "{AUDIENCE}"
algorithms = ["ES256"]
keys = "keys.json"
tenant_claim = "org"
priority_claim = "class"
"""


@pytest.fixture
def callers(tmp_path: Path) -> Callers:
    return Callers(write(tmp_path / "credentials.toml", ANN, BOB, EVE))


@pytest.mark.parametrize("person", [ANN, BOB, EVE])
def test_a_token_names_its_tenant_and_owner_as_bearer_and_as_key(
    callers: Callers, person: Person
) -> None:
    for headers in (person.bearer, person.key, {"authorization": f"bearer  {person.token} "}):
        caller = callers.of(Headers(headers))
        assert decode_token(caller.tenant) == person.tenant
        assert decode_token(caller.owner) == person.owner
        assert caller.identified


def two(name: str, *values: str) -> Headers:
    return Headers(raw=[(name.encode(), value.encode()) for value in values])


@pytest.mark.parametrize("name", ["authorization", "x-api-key", "x-shop-key"])
async def test_two_credentials_in_one_header_are_nobodys(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / "credentials.toml", ANN, EVE)
    callers = Callers(file, key_headers=lambda: ["x-shop-key"])
    sent = [f"Bearer {one.token}" if name == "authorization" else one.token for one in (ANN, EVE)]
    assert callers.of(two(name, sent[0]), of_any_agent=True).identified
    with pytest.raises(CredentialsRefused, match=f"{name} must be sent at most once"):
        callers.of(two(name, *sent), of_any_agent=True)
    scheme = BEARER if name == "authorization" else SecurityScheme(type="apiKey", name=name)
    security = AgentSecurity(schemes={"own": scheme}, require=["own"])
    card = AgentCard(name="shop", description="", security=security)
    assert callers.of_agent(card, two(name, sent[0])).identified
    with pytest.raises(CredentialsRefused, match=f"{name} must be sent at most once"):
        callers.of_agent(card, two(name, *sent))


def test_same_owner_in_two_tenants_are_two_callers(callers: Callers) -> None:
    assert callers.of(Headers(ANN.bearer)) != callers.of(Headers(EVE.bearer))


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer nobody"},
        {"authorization": "Bearer "},
        {"authorization": ANN.token},
        {"authorization": f"Basic {ANN.token}"},
        {"authorization": f"Bearer {ANN.token} {BOB.token}"},
        {"authorization": "Bearer nobody", "x-api-key": ANN.token},
        {"authorization": "Bearer \u00ff\u00e9"},
        {"x-api-key": ""},
        {"x-api-key": "nobody"},
    ],
)
@pytest.mark.parametrize("required", [True, False])
def test_what_is_nobodys_is_refused_also_where_anonymous_may_call(
    tmp_path: Path, headers: dict[str, str], *, required: bool
) -> None:
    head = f"required = {str(required).lower()}"
    callers = Callers(write(tmp_path / "credentials.toml", ANN, head=head))
    with pytest.raises(CredentialsRefused) as refused:
        callers.of(Headers(headers))
    assert ANN.token not in str(refused.value)


def test_without_credentials_it_depends_on_the_file(tmp_path: Path) -> None:
    path = tmp_path / "credentials.toml"
    with pytest.raises(CredentialsMissing):
        Callers(write(path, ANN)).of(Headers())
    assert Callers(write(path, ANN, head="required = false")).of(Headers()) == Caller()
    assert Callers(None).of(Headers(ANN.bearer)) == Caller()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("required = 'maybe'", "required"),
        ("requird = true", "requird"),
        ("[[credential]]\nowner = 'a'", "credential.0.sha256"),
        ("[[credential]]\nowner = 'a'\nsha256 = 'secret'", "credential.0.sha256"),
        (ANN.entry.replace(ANN.owner, ""), "credential.0.owner: .*must not be empty"),
        (ANN.entry.replace(ANN.owner, "ä" * 100), "must have at most 200 characters"),
        (f"{JWT}\n{ANN.entry}".replace("ES256", "none"), "jwt.algorithms.0"),
        (JWT, "keys.json"),
        ("not = = toml", "line 1"),
    ],
)
def test_errors_of_the_file_are_reported(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "credentials.toml"
    path.write_text(content)
    with pytest.raises(CredentialsUnreadable, match=reason) as wrong:
        Callers(path)
    assert "'secret'" not in str(wrong.value)


def test_the_documented_files_are_read(tmp_path: Path) -> None:
    """The page's second file has roles for the first one, and a key of its last table."""
    path, digest = tmp_path / "credentials.toml", "0" * 64
    first, second = (block.code for block in blocks(ROOT / "docs" / "security.md", "toml"))
    (head, issuer), (roles, claims) = (one.split("[jwt]") for one in (first, second))
    whole = f"{head}{roles}[jwt]{issuer}{claims.lstrip()}"
    path.write_text(re.sub('sha256 = "[^"]*"', f'sha256 = "{digest}"', whole))
    known = read_file(path)
    assert [one.owner for one in known.credential] == ["ann@acme.example", "carol"]
    assert set(known.grants()) == {"helpdesk", "on-call"}
    assert known.jwt is not None
    assert known.jwt.roles_claim == "scope"


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CredentialsUnreadable, match="No such file"):
        Callers(tmp_path / "nothing.toml")


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    issuer = Issuer()
    issuer.write_keys(tmp_path / "keys.json")
    return issuer


@pytest.fixture
def trusting(tmp_path: Path, issuer: Issuer) -> Callers:
    assert issuer
    return Callers(write(tmp_path / "credentials.toml", BOB, head=f"{JWT}\n"))


def claims(**changed: object) -> dict[str, object]:
    output = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": time.time() + 60,
        "sub": "auth0|ann",
        "org": "acme",
        "class": "low",
    } | changed
    return {name: value for name, value in output.items() if value is not None}


def test_a_web_token_of_the_issuer_names_its_owner(trusting: Callers, issuer: Issuer) -> None:
    caller = trusting.of(Headers({"authorization": f"Bearer {issuer.token(claims())}"}))
    assert (decode_token(caller.tenant), decode_token(caller.owner)) == ("acme", "auth0|ann")
    assert caller.priority == "low"
    assert trusting.of(Headers(BOB.bearer)).owner == "bob"


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://elsewhere.test"},
        {"aud": "another"},
        {"exp": time.time() - 3600},
        {"exp": None},
        {"nbf": time.time() + 3600},
        {"sub": None},
        {"sub": ""},
        {"org": None},
        {"org": 5},
        {"sub": "x" * 300},
    ],
)
def test_web_tokens_that_are_not_for_us_are_refused(
    trusting: Callers, issuer: Issuer, changed: dict[str, object]
) -> None:
    with pytest.raises(CredentialsRefused):
        trusting.of(Headers({"authorization": f"Bearer {issuer.token(claims(**changed))}"}))


def test_forged_web_tokens_are_refused(trusting: Callers, issuer: Issuer, tmp_path: Path) -> None:
    public = (tmp_path / "keys.json").read_bytes()
    none = jwt.encode(claims(), "", "none", headers={"kid": issuer.kid})
    confused = _hmac_token(claims(), public, issuer.kid)
    other = Issuer().token(claims())
    unknown = Issuer("key-2").token(claims())
    head, body, signature = issuer.token(claims()).split(".")
    altered = ".".join([head, body[:-2] + "AA", signature])
    for token in (none, confused, other, unknown, altered, "a.b.c", "..", f"{'a' * 20000}.b.c"):
        with pytest.raises(CredentialsRefused):
            trusting.of(Headers({"authorization": f"Bearer {token}"}))


def _hmac_token(output: dict[str, object], secret: bytes, kid: str) -> str:
    """Return a token signed with a public key as if it were a shared secret."""
    header = {"alg": "HS256", "typ": "JWT", "kid": kid}
    signed = b".".join(base64url_encode(json.dumps(part).encode()) for part in (header, output))
    signature = base64url_encode(hmac.digest(secret, signed, "sha256"))
    return b".".join([signed, signature]).decode()


def test_cards_state_which_credentials_are_accepted(tmp_path: Path, issuer: Issuer) -> None:
    assert issuer
    card = AgentCard(name="a")
    assert security_of(card, None) == {}
    path = write(tmp_path / "credentials.toml", head=JWT)
    bearer = {"scheme": "Bearer", "bearerFormat": "JWT"}
    assert security_of(card, read_file(path))["securitySchemes"] == {
        "bearer": {"httpAuthSecurityScheme": bearer}
    }
    described = security_of(card, read_file(write(path, ANN, head=JWT)))
    assert described["securitySchemes"]["bearer"] == {
        "httpAuthSecurityScheme": {"scheme": "Bearer"}
    }, "others than web tokens are taken, too"
    assert described["securityRequirements"] == [
        {"schemes": {"bearer": {}}},
        {"schemes": {"apiKey": {}}},
    ]
    path.write_text("required = false")
    assert "securityRequirements" not in security_of(card, read_file(path))


SIGN_IN = """
[jwt.sign_in]
authorization_url = "https://auth.test/authorize?audience=headrace"
token_url = "https://auth.test/token"
flows = ["authorization_code", "client_credentials"]
scopes = { openid = "Who calls" }
"""


def test_cards_state_where_tokens_are_issued_to_clients_of_all_versions(
    tmp_path: Path, issuer: Issuer
) -> None:
    assert issuer
    path = write(tmp_path / "credentials.toml", head=f"mutual_tls = true\n{JWT}{SIGN_IN}")
    card = agent_card(AgentCard(name="a"), "https://fleet.test", None, read_file(path))
    core = ParseDict(card, a2a_pb2.AgentCard())
    schemes = core.security_schemes
    assert set(schemes) == {"bearer", "oauth2", "clientCredentials", "mutualTls"}
    people = schemes["oauth2"].oauth2_security_scheme.flows.authorization_code
    assert people.pkce_required
    assert people.authorization_url == "https://auth.test/authorize?audience=headrace"
    assert dict(people.scopes) == {"openid": "Who calls"}
    assert schemes["mutualTls"].HasField("mtls_security_scheme")
    older = types.AgentCard.model_validate(readable_by_old(card, "a"))
    assert older.security is not None
    assert [set(one) for one in older.security] == [
        {"bearer", "mutualTls"},
        {"oauth2", "mutualTls"},
        {"clientCredentials", "mutualTls"},
    ]
    assert len(proto_utils.ToProto.agent_card(older).security_schemes) == len(schemes)
    programs = (older.security_schemes or {})["clientCredentials"].root
    assert isinstance(programs, types.OAuth2SecurityScheme)
    assert programs.flows.client_credentials is not None
    assert programs.flows.client_credentials.token_url == "https://auth.test/token"


def test_scopes_that_are_roles_are_in_the_cards_requirements(
    tmp_path: Path, issuer: Issuer
) -> None:
    assert issuer
    role = '[[role]]\nname = "sender"\n\n[[role]]\nname = "reader"\noperations = ["read"]\n'
    head = f'{role}{JWT}roles_claim = "scope"\n{SIGN_IN}'
    path = write(tmp_path / "credentials.toml", head=head)
    found = security_of(AgentCard(name="a"), read_file(path))["securityRequirements"]
    assert found == [
        {"schemes": {name: {"list": ["sender"]}}}
        for name in ("bearer", "oauth2", "clientCredentials")
    ]


def test_a_discovery_document_completes_the_sign_in_and_is_read_again(
    tmp_path: Path, issuer: Issuer
) -> None:
    assert issuer
    document = {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token",
        "end_session_endpoint": f"{ISSUER}/out",
    }
    (tmp_path / "discovery.json").write_text(json.dumps(document))
    own = '[jwt.sign_in]\ndiscovery = "discovery.json"\ntoken_url = "https://own.test/token"\n'
    known = Callers(write(tmp_path / "credentials.toml", head=JWT + own)).known
    assert known is not None
    assert known.jwt is not None
    assert known.jwt.sign_in is not None
    assert known.jwt.sign_in.authorization_url == f"{ISSUER}/authorize"
    assert known.jwt.sign_in.token_url == "https://own.test/token", "the setting takes precedence"
    assert known.jwt.sign_in.end_session_url == f"{ISSUER}/out"
    connect = security_of(AgentCard(name="a"), known)["securitySchemes"]["openIdConnect"]
    assert connect["openIdConnectSecurityScheme"] == {
        "openIdConnectUrl": f"{ISSUER}/.well-known/openid-configuration"
    }


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("[]", "not a discovery document of the issuer"),
        ('{"issuer": "https://other.test"}', "not a discovery document of the issuer"),
        (f'{{"issuer": "{ISSUER}", "token_endpoint": "http://a.test"}}', "must be an https URL"),
        (f'{{"issuer": "{ISSUER}", "token_endpoint": "https://a.test"}}', "authorization_endpoint"),
        ("{", "discovery.json"),
    ],
)
def test_an_unusable_discovery_document_is_refused(
    tmp_path: Path, issuer: Issuer, document: str, message: str
) -> None:
    assert issuer
    (tmp_path / "discovery.json").write_text(document)
    own = '[jwt.sign_in]\ndiscovery = "discovery.json"\n'
    with pytest.raises(CredentialsUnreadable, match=message):
        Callers(write(tmp_path / "credentials.toml", head=JWT + own))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('authorization_url = "https://a.test"', "needs token_url"),
        ('token_url = "https://a.test"', "needs authorization_url"),
        ('token_url = "http://a.test"', "http is for this machine only"),
        ('token_url = "https://a.test; script-src *"', "must be an https URL"),
        (
            'token_url = "https://a.test"\nflows = ["client_credentials"]\nconsole_client = "c"',
            "console_client needs 'authorization_code'",
        ),
    ],
)
def test_an_unusable_sign_in_is_refused_with_the_setting(
    tmp_path: Path, lines: str, message: str
) -> None:
    path = write(tmp_path / "credentials.toml", head=f"{JWT}[jwt.sign_in]\n{lines}\n")
    with pytest.raises(CredentialsUnreadable, match=message):
        read_file(path)


async def test_an_agents_schemes_follow_its_card_and_the_credentials_file(tmp_path: Path) -> None:
    bearer = {"bearer": SecurityScheme(type="http", scheme="bearer")}
    path = write(tmp_path / "credentials.toml", ANN)
    callers = Callers(path)
    card = AgentCard(name="shop", security=AgentSecurity(schemes=bearer))
    with pytest.raises(CredentialsMissing, match="a bearer token"):
        callers.of_agent(card, Headers())
    key = {"key": SecurityScheme(type="apiKey", name="X-Shop")}
    changed = AgentCard(name="shop", security=AgentSecurity(schemes=key))
    with pytest.raises(CredentialsMissing, match="an API key in X-Shop"):
        callers.of_agent(changed, Headers())
    callers.start()
    write(path, ANN, head="required = false")

    async def is_reloaded() -> bool:
        return callers.known is not None and not callers.known.required

    await eventually(is_reloaded, "the file is read again")
    await callers.stop()
    assert callers.of_agent(changed, Headers()) == Caller()


async def test_a_changed_file_is_read_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[threading.Thread]()

    def reading(path: Path) -> KnownCredentials:
        threads.append(threading.current_thread())
        return read_file(path)

    monkeypatch.setattr(authenticate, "read_file", reading)
    path = write(tmp_path / "credentials.toml", ANN)
    callers = Callers(path, interval=0.01)
    callers.start()
    write(path, ANN, head="required = false")

    async def is_reloaded() -> bool:
        return callers.known is not None and not callers.known.required

    await eventually(is_reloaded, "the file is read again")
    await callers.stop()
    first, *later = threads
    assert first is threading.current_thread()
    assert later
    assert threading.current_thread() not in later


ROLES = """
[[role]]
name = "helpdesk"
agents = ["faq-*", "assistant"]
operations = ["read", "SendMessage"]

[[role]]
name = "on-call"
operator = true
operations = ["read", "cancel"]
"""


def with_roles(*roles: str) -> Person:
    return Person("acme", "carol", roles)


def test_without_roles_a_credential_is_good_for_everything_of_its_owner(callers: Callers) -> None:
    caller = callers.of(Headers(ANN.bearer))
    assert caller.may("any", "CancelTask")
    assert not caller.operates("any", "GetTask")


@pytest.mark.parametrize(
    ("agent", "operation", "allowed"),
    [
        ("assistant", "GetTask", True),
        ("faq-1", "SubscribeToTask", True),
        ("assistant", "SendMessage", True),
        ("assistant", "SendStreamingMessage", False),
        ("assistant", "CancelTask", False),
        ("echo", "GetTask", False),
        ("faq", "GetTask", False),
    ],
)
def test_a_role_names_agents_and_operations(
    tmp_path: Path,
    agent: str,
    operation: str,
    allowed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    person = with_roles("helpdesk")
    caller = Callers(write(tmp_path / "c.toml", person, head=ROLES)).of(Headers(person.bearer))
    assert caller.may(agent, operation) is allowed


def test_an_operator_reaches_all_owners_tasks_to_see_and_to_end_them(tmp_path: Path) -> None:
    person = with_roles("helpdesk", "on-call")
    caller = Callers(write(tmp_path / "c.toml", person, head=ROLES)).of(Headers(person.bearer))
    for operation in ("GetTask", "ListTasks", "SubscribeToTask", "CancelTask"):
        assert caller.operates("echo", operation)
    assert not caller.operates("assistant", "SendMessage")
    assert not caller.may("echo", "SendMessage")


def test_a_credential_with_no_roles_at_all_is_good_for_nothing(tmp_path: Path) -> None:
    person = with_roles()
    caller = Callers(write(tmp_path / "c.toml", person, head=ROLES)).of(Headers(person.bearer))
    assert not caller.may("assistant", "GetTask")


@pytest.mark.parametrize(
    ("head", "person", "rule"),
    [
        ("", with_roles("nobody"), "credential.0.roles: role 'nobody' does not exist"),
        (ROLES + ROLES, ANN, "role.2.name: 'helpdesk' is declared twice"),
        ('[[role]]\nname = "x"\noperations = ["reed"]', ANN, "unknown operation 'reed'"),
        ('[[role]]\nname = "x"\nagent = ["a"]', ANN, "role.0.agent"),
    ],
)
def test_a_mistake_in_roles_is_named(tmp_path: Path, head: str, person: Person, rule: str) -> None:
    with pytest.raises(CredentialsUnreadable) as raised:
        read_file(write(tmp_path / "c.toml", person, head=head))
    assert rule in str(raised.value)


@pytest.mark.parametrize(
    ("claim", "allowed"),
    [
        ("openid helpdesk", True),
        (["helpdesk"], True),
        (["unknown", 7], False),
        ({"helpdesk": True}, False),
        (None, False),
    ],
)
def test_a_tokens_roles_or_scopes_are_looked_at(
    tmp_path: Path,
    claim: object,
    allowed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    issuer = Issuer()
    issuer.write_keys(tmp_path / "keys.json")
    file = write(tmp_path / "c.toml", head=f'{JWT}roles_claim = "scope"\n{ROLES}')
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "carol", "org": "acme"}
    token = issuer.token({**claims, "exp": time.time() + 60, "scope": claim})
    caller = Callers(file).of(Headers({"authorization": f"Bearer {token}"}))
    assert caller.may("assistant", "GetTask") is allowed
    assert not caller.may("assistant", "CancelTask")
