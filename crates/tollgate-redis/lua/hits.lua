-- Hits on GCRA and fixed windows, in a third of the time that the general way takes: no function is made, and the arguments of a limit are read
-- once for all keys that follow. Whole microseconds stay below 2^53 here: the caller sees to that.
--
-- For each key: its limit and the cost, unless they are those of the key before, and then how many hits of that cost there are. They are decided
-- one after another and written once.
--
-- The reply: the time, then for each key its state before the hits as it stands in Redis, false if there was none, or 0 if the value is no
-- state of the limit: such a key stays as it is, and the others are decided all the same. The caller computes the decisions from that.
if mode == 'hits' then
  local find, match, format, min = string.find, string.match, string.format, math.min
  local get = redis.pcall
  local reply = { now }
  local cursor = 3
  local gcra, aligned
  -- Of GCRA: what is tolerated from now on, and what the cost is worth, in microseconds and parts of 1 / quota of one.
  local quota, latest, latest_part, worth, worth_part
  -- Of fixed windows.
  local period, cost, charge_denied, phase, window

  for index = 1, #KEYS do
    local key, algorithm = KEYS[index], ARGV[cursor]
    if algorithm == 'gcra' then
      gcra, quota = true, ARGV[cursor + 1] + 0
      latest, latest_part = now + ARGV[cursor + 2], ARGV[cursor + 3] + 0
      worth, worth_part = ARGV[cursor + 4] + 0, ARGV[cursor + 5] + 0
      cursor = cursor + 6
    elseif algorithm == 'fixed-window' or algorithm == 'fixed-window-per-key' then
      gcra, aligned = false, algorithm == 'fixed-window'
      quota, period, cost = ARGV[cursor + 1] + 0, ARGV[cursor + 2] + 0, ARGV[cursor + 3] + 0
      charge_denied = ARGV[cursor + 4] == '1'
      phase = math.fmod(now, period)
      window = aligned and (now - phase) / period or now
      cursor = cursor + 5
    end
    local hits = ARGV[cursor] + 0
    cursor = cursor + 1

    local text = get('GET', key)
    local a, b, valid = nil, 0, true
    if text then
      valid = type(text) == 'string'
      if valid and gcra and find(text, '^%d+$') then
        a = text + 0
      elseif valid then
        a, b = match(text, '^(%d+) (%d+)$')
        valid = a ~= nil
        if valid then a, b = a + 0, b + 0 end
      end
    end
    reply[index + 1] = valid and text

    local changed, micros = false, 0
    if not valid then
      reply[index + 1] = 0
    elseif gcra then
      -- The arrival time that counts: never in the past. A part left over from a larger quota counts as the microsecond it is nearly.
      if not a or a < now then a, b = now, 0 elseif b >= quota then a, b = a + 1, 0 end
      for _ = 1, hits do
        local tat, part = a + worth, b + worth_part
        if part >= quota then tat, part = tat + 1, part - quota end
        if tat > latest or (tat == latest and part > latest_part) then break end
        a, b, changed = tat, part, true
      end
      micros = a - now + 1
    else
      -- The window that counts: the clock's, or the state's if that is later or still open.
      if not a or (aligned and a < window) or (not aligned and now - a >= period) then a, b = window, 0 end
      for _ = 1, hits do
        if b + cost <= quota then
          b, changed = b + cost, true
        elseif charge_denied then
          b, changed = min(b + cost, 1000000000000000), true
        else
          break
        end
      end
      micros = aligned and (a - window + 1) * period - phase or a + period - now
    end
    if changed then
      local value = (gcra and b == 0) and format('%d', a) or format('%.0f %.0f', a, b)
      call('SET', key, value, 'PX', format('%d', min(math.ceil(micros / 1000) + grace, 1e15)))
    end
  end
  return reply
end

