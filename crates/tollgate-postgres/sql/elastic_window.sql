-- Elastic window: expiry, count. Every attempt on a live window pushes its expiry; x is where to.
x := least(now + period, LATEST);
used := 0;
IF has THEN
  x := greatest(a, x);
  IF now < a THEN used := b; END IF;
END IF;
fits := used + amount <= quota;
room := quota - used;
-- act
IF act = CHARGE THEN
  a := x;
  b := least(used + amount, MOST);
  c := 0;
  has := true;
ELSIF act = PUT THEN
  a := least(now + period, LATEST);
  b := amount;
  c := 0;
  has := true;
ELSIF act = ATTEMPT AND has AND now < a AND a < x THEN
  a := x;
  dirty := true;
ELSIF act = REFUND AND now < a AND (receipt < 0 OR now - receipt < period) THEN
  b := greatest(b - amount, 0);
  dirty := true;
END IF;
fresh_at := a;
