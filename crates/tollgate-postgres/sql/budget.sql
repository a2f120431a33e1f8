-- Budget: count. It never ends.
used := 0;
IF has THEN used := a; END IF;
fits := used + amount <= quota;
room := quota - used;
-- act
IF act = CHARGE THEN
  a := least(used + amount, MOST);
  b := 0;
  c := 0;
  has := true;
ELSIF act = PUT THEN
  a := amount;
  b := 0;
  c := 0;
  has := amount > 0;
ELSIF act = REFUND THEN
  a := greatest(a - amount, 0);
  has := a > 0;
  dirty := true;
END IF;
fresh_at := LATEST;
