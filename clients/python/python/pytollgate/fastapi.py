"""A dependency for FastAPI. For a whole application, see `pytollgate.asgi`.

app.get("/search", dependencies=[Depends(RateLimit("10/minute"))])
"""

# Annotations must not be strings here: FastAPI reads those of `__call__`.

from typing import Any

from fastapi import HTTPException, Request, Response

from ._gate import Gate
from ._types import AnyDecision
from .asgi import head_of


class RateLimit:
    """Limits the routes that depend on it. The settings are those of `Gate`.

    Routes that share one `RateLimit` share its counters. Its value is the decision, or `None` for
    an exempt request.
    """

    def __init__(self, limiter: Any, **settings: Any) -> None:
        self._gate = Gate(limiter, **settings)

    async def __call__(self, request: Request, response: Response) -> AnyDecision | None:
        admission = await self._gate.admit_async(head_of(request.scope))
        if admission.refusal is not None:
            headers = {
                name: value
                for name, value in admission.refusal.headers
                if name not in ("content-type", "content-length")
            }
            detail = admission.refusal.body.decode().strip()
            raise HTTPException(admission.refusal.status, detail, headers)
        for name, value in admission.headers:
            response.headers.append(name, value)
        return admission.decision
