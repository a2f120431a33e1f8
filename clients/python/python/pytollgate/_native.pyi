from collections.abc import Iterable, Sequence
from typing import Any

from ._types import Key

class Store:
    """Where limiters count. Limiters on one store share its connections and its counters.

    A store outside of this process is connected when it is first used, so that making one never
    waits. After a fork the child connects anew.

    >>> store = Store("memory:")
    >>> reads, writes = Limiter("100/minute", store=store), Limiter("10/minute", store=store)

    """

    def __new__(
        cls,
        url: str = "memory:",
        *,
        deadline: float | None = None,
        remember_denials: int | None = None,
        max_keys: int | None = None,
        prefix: str | None = None,
    ) -> Store: ...
    @property
    def url(self) -> str:
        """The URL, without passwords."""

    def close(self) -> None:
        """Gives back what this process has drawn in advance, and tells other nodes that it
        leaves."""

class Decision:
    """The answer of a limiter. It is true if the hit is allowed.

    The figures are those of the limit that denies with the longest wait, else of the one with the
    fewest units left. Times are seconds.
    """

    @property
    def allowed(self) -> bool:
        """Whether every limit allows the hit."""

    @property
    def limit(self) -> int:
        """The capacity: the quota, or the burst of a bucket."""

    @property
    def remaining(self) -> int:
        """The largest cost that would still pass now, after this decision."""

    @property
    def used(self) -> int:
        """The units in use, rounded up."""

    @property
    def retry_after(self) -> float | None:
        """Seconds until this cost passes if nobody else comes: 0 if it is allowed, `None` if it can
        never pass."""

    @property
    def reset_after(self) -> float:
        """Seconds until the key is fresh again if nobody comes."""

    @property
    def expires_at(self) -> float | None:
        """The time at which the key is fresh again; `None` if it is fresh."""

    @property
    def charged(self) -> int:
        """The units that this call charged."""

    @property
    def now(self) -> float:
        """The time for which this was decided."""

    @property
    def source(self) -> str:
        """`store`, or what decided in its place: `denial_cache`, `fallback`, `fail_open`,
        `fail_closed`, `lease`, `replica` or `overflow`."""

    @property
    def bound(self) -> int | None:
        """Units that may have been admitted beyond the limit when this was decided; `None` if that
        is unknown."""

    @property
    def name(self) -> str | None:
        """The name of the limit, if it has one."""

    @property
    def policy(self) -> str:
        """The limits as text."""

    @property
    def outcomes(self) -> tuple[Decision, ...]:
        """The answer of each limit, in their order."""

    def headers(self, names: Sequence[str] | None = None) -> list[tuple[str, str]]:
        """The headers that describe this decision to a client: `RateLimit-Policy`, `RateLimit` and,
        on a denial, `Retry-After`. Or those of `ratelimit`, `ratelimit-limit`, `x-ratelimit`,
        `x-ratelimit-unix` and `retry-after` that are named."""

    def problem(self, status: int = 429) -> str:
        """A body for a refused request: `application/problem+json`."""

    def __bool__(self) -> bool: ...

class Limiter:
    """One or several limits on a store. Calls wait for the store, and other threads run meanwhile.

    `policy` is a limit or several: `"10/second burst=20"`, `"5/second; 100/minute"`, or a list of
    texts. `store` is a URL or a `Store`; by default the limiter counts in this process. `on_failure`
    says what happens if the store does not answer: `error`, `open`, `closed`, or `local 1/4` for a
    quarter of the limit in this process. `deadline` is the longest time of a call in seconds.

    >>> limiter = Limiter("5/second; 100/minute")
    >>> if limiter.hit("user:42"):
    ...     print("welcome")
    welcome

    Every call takes `at`, the time in seconds since 1970, so that tests need not sleep.
    """

    def __new__(
        cls,
        policy: str | Sequence[str],
        *,
        store: str | Store | None = None,
        namespace: str = "",
        on_failure: str = "error",
        deadline: float | None = None,
    ) -> Limiter: ...
    def hit(self, key: Key, cost: int = 1, *, at: float | None = None) -> Decision:
        """Decides whether this key may make a request of this cost now, and charges it if so."""

    def peek(self, key: Key, cost: int = 1, *, at: float | None = None) -> Decision:
        """Returns the decision that a hit would get, and changes nothing."""

    def take(self, key: Key, cost: int, *, at: float | None = None) -> Decision:
        """Charges as many units as fit, from zero to `cost`: see `Decision.charged`."""

    def charge(self, key: Key, units: int, *, at: float | None = None) -> Decision:
        """Charges without checking. The usage may exceed the limit."""

    def refund(
        self,
        key: Key,
        charged: Decision | int,
        units: int | None = None,
        *,
        at: float | None = None,
    ) -> Decision:
        """Gives back what a decision charged, at most `units` of it; or so many units without a
        decision, as a correction."""

    def set(self, key: Key, units: int, *, at: float | None = None) -> Decision:
        """Sets the units in use."""

    def usage(self, key: Key, *, at: float | None = None) -> int:
        """Returns the units in use."""

    def reset(self, key: Key, *, at: float | None = None) -> bool:
        """Forgets the key. True if it was not fresh."""

    def wait(self, key: Key, cost: int = 1, *, timeout: float) -> Decision:
        """Waits until a hit of this cost is allowed, and charges it then. Returns the denial at once
        if that would take longer than `timeout` seconds. Callers are served in their order."""

    def hit_each(self, keys: Iterable[Key], *, at: float | None = None) -> list[Decision]:
        """Hits many keys independently of each other."""

    def clear(self) -> None:
        """Forgets all keys."""

    def check(self) -> None:
        """Raises `StoreError` if the store cannot decide."""

    @property
    def policy(self) -> str:
        """The limits as text."""

    @property
    def store(self) -> Store:
        """The store."""
    # For `AsyncLimiter`: each returns the answer, or a `Pending` that the mailbox will get.
    def start_hit(
        self, mailbox: Mailbox, key: Key, cost: int, at: float | None = None
    ) -> Decision | Pending: ...
    def start_call(
        self, mailbox: Mailbox, name: str, key: Key, units: int, at: float | None = None
    ) -> object: ...
    def start_refund(
        self,
        mailbox: Mailbox,
        key: Key,
        charged: Decision | int,
        units: int | None = None,
        at: float | None = None,
    ) -> object: ...
    def start_wait(self, mailbox: Mailbox, key: Key, cost: int, timeout: float) -> object: ...
    def start_hit_each(
        self, mailbox: Mailbox, keys: Iterable[Key], at: float | None = None
    ) -> object: ...
    def start_clear(self, mailbox: Mailbox) -> object: ...
    def start_check(self, mailbox: Mailbox) -> object: ...

class Tagged:
    """A key with a tag. All keys with the same tag are on the same shard of a shared store, so that
    one call can decide several of them."""

    def __new__(cls, tag: Key, key: Key) -> Tagged: ...
    @property
    def tag(self) -> Key: ...
    @property
    def key(self) -> Key: ...

class ClientAddress:
    """How the address of a client is found.

    By default it is the peer of the connection. `behind` names the addresses of your proxies: the
    client is then the right-most address of `X-Forwarded-For` that is not one of theirs. `hops` is
    for a server that is reached only through so many proxies. IPv6 clients are their `/64`.

    >>> behind = ClientAddress(behind=["10.0.0.0/8"])
    >>> behind.find("10.0.0.1", [b"6.6.6.6, 203.0.113.7, 10.0.0.2"])
    '203.0.113.7'

    """

    def __new__(
        cls,
        *,
        behind: Sequence[str] | None = None,
        hops: int | None = None,
        header: str = "x-forwarded-for",
        ipv6_prefix: int = 64,
    ) -> ClientAddress: ...
    @property
    def header(self) -> str | None:
        """The header that `find` wants the lines of; `None` if only the peer counts."""

    def find(self, peer: str | None, lines: Sequence[bytes] = ()) -> str | None:
        """The address that stands for the client; `None` if it is not known."""

class Mailbox:
    def __new__(cls) -> Mailbox: ...
    def fileno(self) -> int: ...
    def take(self) -> list[tuple[int, Any, bool]]: ...

class Pending:
    @property
    def number(self) -> int: ...
    def cancel(self) -> None: ...

def hit_all(items: Sequence[tuple[Limiter, Key, int]], *, at: float | None = None) -> Decision:
    """Hits several keys of limiters on one store: all are charged or none is."""

def start_hit_all(
    mailbox: Mailbox, items: Sequence[tuple[Limiter, Key, int]], at: float | None = None
) -> object: ...
def check_headers(names: Sequence[str]) -> None: ...
