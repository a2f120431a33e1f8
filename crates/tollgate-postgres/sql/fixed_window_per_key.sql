-- Fixed window per key: start, count. x is the start that counts.
x := now;
used := 0;
IF has AND now - a < r.period THEN
  x := a;
  used := b;
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
  a := now;
  b := amount;
  c := 0;
  has := true;
ELSIF act = REFUND AND now - a < r.period AND (r.mark < 0 OR r.mark = a) THEN
  b := greatest(b - amount, 0);
  dirty := true;
END IF;
-- fresh
fresh_at := least(a + r.period, LATEST);
