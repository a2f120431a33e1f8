-- Token bucket and leaky bucket: time, units in use, rest. The level, in parts of 1 / period of a unit, sinks by quota parts each microsecond; x is the
-- time that counts, now or the state's own if that lies ahead.
x := now;
level := 0;
IF has THEN
  level := b::numeric * r.period + c;
  IF now > a THEN
    level := greatest(level - (now - a)::numeric * r.quota, 0);
  ELSE
    x := a;
  END IF;
END IF;
fits := level + r.units::numeric * r.period <= r.burst::numeric * r.period;
IF r.verb = TAKE THEN
  room := div(greatest(r.burst::numeric * r.period - level, 0), r.period);
END IF;
-- act
IF act = CHARGE THEN
  level := least(level + amount::numeric * r.period, MOST::numeric * r.period);
ELSIF act = PUT THEN
  level := amount::numeric * r.period;
ELSIF act = REFUND THEN
  -- At most what has not sunk since: these units are taken to have sunk first. w are the microseconds since.
  w := CASE WHEN r.mark < 0 THEN 0 ELSE greatest(x - r.mark, 0) END;
  dirty := level > 0 AND amount::numeric * r.period > w::numeric * r.quota;
  IF dirty THEN level := greatest(level - (amount::numeric * r.period - w::numeric * r.quota), 0); END IF;
END IF;
IF dirty THEN
  a := x;
  b := div(level, r.period);
  c := level % r.period;
  has := level > 0;
END IF;
-- fresh
fresh_at := least(a + div(b::numeric * r.period + c + (r.quota - 1), r.quota), LATEST);
