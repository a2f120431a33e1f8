-- Fixed window: number of the window, count. Windows are numbered from 1970; x is the one that counts, the clock's or the state's if that is later.
x := now / r.period;
used := 0;
IF has AND a >= x THEN
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
  a := x;
  b := amount;
  c := 0;
  has := true;
ELSIF act = REFUND AND a = x AND (r.mark < 0 OR r.mark = a) THEN
  b := greatest(b - amount, 0);
  dirty := true;
END IF;
-- fresh
fresh_at := CASE WHEN a < LATEST / r.period THEN (a + 1) * r.period ELSE LATEST END;
