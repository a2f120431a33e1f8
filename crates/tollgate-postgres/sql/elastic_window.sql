-- Elastic window: expiry, count. Every attempt on a live window pushes its expiry; x is where to.
x := least(now + r.period, LATEST);
used := 0;
IF has THEN
  x := greatest(a, x);
  IF now < a THEN used := b; END IF;
END IF;
fits := used + r.units <= r.quota;
room := r.quota - used;
denies := r.burst = 1;
-- act
IF act = CHARGE THEN
  a := x;
  b := least(used + amount, MOST);
  c := 0;
  has := true;
ELSIF act = PUT THEN
  a := least(now + r.period, LATEST);
  b := amount;
  c := 0;
  has := true;
ELSIF act = ATTEMPT AND has AND now < a AND a < x THEN
  a := x;
  dirty := true;
ELSIF act = REFUND AND now < a AND (r.receipt < 0 OR now - r.receipt < r.period) THEN
  b := greatest(b - amount, 0);
  dirty := true;
END IF;
-- fresh
fresh_at := a;
