-- Fixed window per key: start, count. x is the start that counts.
x := now;
used := 0;
IF has AND now - a < period THEN
  x := a;
  used := b;
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
  a := now;
  b := amount;
  c := 0;
  has := true;
ELSIF act = REFUND AND now - a < period AND (mark < 0 OR mark = a) THEN
  b := greatest(b - amount, 0);
  dirty := true;
END IF;
fresh_at := least(a + period, LATEST);
