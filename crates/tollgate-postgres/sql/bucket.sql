-- Token bucket and leaky bucket: time, units in use, rest. The level, in parts of 1 / period of a
-- unit, sinks by quota parts each microsecond; x is the time that counts, now or the state's own if
-- that lies ahead.
x := now;
level := 0;
IF has THEN
  level := b::numeric * period + c;
  IF now > a THEN
    level := greatest(level - (now - a)::numeric * quota, 0);
  ELSE
    x := a;
  END IF;
END IF;
fits := level + amount::numeric * period <= burst::numeric * period;
IF verb = TAKE THEN
  room := div(greatest(burst::numeric * period - level, 0), period);
END IF;
-- act
IF act = CHARGE THEN
  level := least(level + amount::numeric * period, MOST::numeric * period);
ELSIF act = PUT THEN
  level := amount::numeric * period;
ELSIF act = REFUND THEN
  -- At most what has not sunk since: these units are taken to have sunk first. w are the
  -- microseconds since.
  w := CASE WHEN mark < 0 THEN 0 ELSE greatest(x - mark, 0) END;
  dirty := level > 0 AND amount::numeric * period > w::numeric * quota;
  IF dirty THEN level := greatest(level - (amount::numeric * period - w::numeric * quota), 0); END IF;
END IF;
IF dirty THEN
  a := x;
  b := div(level, period);
  c := level % period;
  has := level > 0;
END IF;
fresh_at := least(a + div(b::numeric * period + c + (quota - 1), quota), LATEST);
