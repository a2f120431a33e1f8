//! Plain hits, which a faster SQL function decides: see `sql/hits.sql`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use tokio_postgres::SimpleQueryRow;
use tollgate::algorithm::{AnyMachine, AnyState, Op, Step, gcra};
use tollgate::{Outcome, Timestamp};

use crate::command::{Call, Rule, push_name};
use crate::schema::VERSION;

/// The end of time in SQL. Beyond it nothing is a state.
const LATEST: u64 = (1 << 62) - 1;

/// A batch of nothing but plain hits, in the order of their arrival.
#[derive(Debug)]
pub(crate) struct Hits {
    statement: String,
    /// One for each key, in the order of the keys.
    groups: Vec<Group>,
    /// The group of each hit.
    places: Vec<usize>,
}

/// The hits on one key, which are charged as one.
#[derive(Debug)]
struct Group {
    rule: Arc<Rule>,
    at: Option<Timestamp>,
    costs: Vec<u64>,
    total: u64,
}

impl Group {
    /// Whether both can share one element of the argument lists.
    fn is_like(&self, other: &Group) -> bool {
        Arc::ptr_eq(&self.rule, &other.rule) && self.at == other.at && self.total == other.total
    }

    /// Adds a hit. `None` if it cannot be charged together with the others.
    fn add(&mut self, rule: &Arc<Rule>, at: Option<Timestamp>, cost: u64) -> Option<()> {
        self.total += cost;
        self.costs.push(cost);
        let as_others = Arc::ptr_eq(&self.rule, rule) && self.at == at;
        (as_others && self.total <= rule.capacity()).then_some(())
    }

    /// The decision of each hit. `None` if `ask` must decide them one after another.
    fn decisions(
        &self,
        charged: bool,
        state: gcra::GcraState,
        now: Timestamp,
    ) -> Option<Vec<Outcome>> {
        let (machine, mut state) = (self.rule.machine(), Some(AnyState::Gcra(state)));
        if !charged {
            let hit = |cost: &u64| machine.apply(&mut state, now, Op::Hit(*cost));
            let decisions: Vec<Outcome> = self.costs.iter().map(hit).collect();
            return (!decisions.iter().any(Outcome::allowed)).then_some(decisions);
        }
        // Backwards from the state after all hits to the state after the first one.
        let mut decisions = Vec::with_capacity(self.costs.len());
        for (later, cost) in self.costs.iter().copied().enumerate().rev() {
            let step = Step { allowed: true, cost, charged: cost, changed: true };
            decisions.push(machine.decision(state.as_ref(), now, step));
            if later > 0 {
                let _ = machine.apply(&mut state, now, Op::RefundUnits(cost));
            }
        }
        decisions.reverse();
        Some(decisions)
    }
}

impl Hits {
    /// `None` if there are other calls among them, or hits on one key that cannot be charged
    /// together.
    pub(crate) fn of<'a>(
        schema: &str,
        calls: impl Iterator<Item = &'a Call> + Clone,
    ) -> Option<Hits> {
        let mut keys: BTreeMap<&[u8], (usize, Group)> = BTreeMap::new();
        for call in calls.clone() {
            let (key, rule, cost) = plain(call)?;
            match keys.entry(key) {
                std::collections::btree_map::Entry::Occupied(known) => {
                    known.into_mut().1.add(rule, call.at, cost)?;
                }
                std::collections::btree_map::Entry::Vacant(new) => {
                    let (rule, costs) = (Arc::clone(rule), vec![cost]);
                    new.insert((0, Group { rule, at: call.at, costs, total: cost }));
                }
            }
        }
        if keys.is_empty() {
            return None;
        }
        keys.values_mut().enumerate().for_each(|(place, group)| group.0 = place);
        let place = |call: &Call| Some(keys.get(&call.parts.first()?.key[..])?.0);
        let places = calls.map(place).collect::<Option<Vec<_>>>()?;
        let statement = statement(schema, &keys);
        let groups = keys.into_values().map(|(_, group)| group).collect();
        Some(Hits { statement, groups, places })
    }

    pub(crate) fn statement(&self) -> &str {
        &self.statement
    }

    /// The decision of each hit. `None` where it was not charged but may be allowed.
    pub(crate) fn decisions(self, rows: &[SimpleQueryRow]) -> Vec<Option<Outcome>> {
        let mut decided: Vec<_> = self.groups.iter().map(|_| None).collect();
        for row in rows {
            let Some((place, charged, state, clock)) = parse(row) else { continue };
            // Rows that were charged come first.
            if let (Some(group), Some(decided @ None)) =
                (self.groups.get(place), decided.get_mut(place))
            {
                *decided = Some(group.decisions(charged, state, group.at.unwrap_or(clock)));
            }
        }
        let mut decided: Vec<_> = decided
            .into_iter()
            .map(|of_key| of_key.flatten().unwrap_or_default().into_iter())
            .collect();
        self.places.iter().map(|place| decided.get_mut(*place)?.next()).collect()
    }
}

/// The key, rule and cost of a plain hit: on GCRA, with a cost that can be allowed.
fn plain(call: &Call) -> Option<(&[u8], &Arc<Rule>, u64)> {
    match &call.parts[..] {
        [part] => match (part.op, part.rule.machine()) {
            (Op::Hit(cost), AnyMachine::Gcra(_)) if cost > 0 && cost <= part.rule.capacity() => {
                Some((&part.key, &part.rule, cost))
            }
            _ => None,
        },
        _ => None,
    }
}

fn statement(schema: &str, keys: &BTreeMap<&[u8], (usize, Group)>) -> String {
    let (mut names, mut kinds) = (String::new(), String::new());
    let mut seen: Vec<&Group> = Vec::new();
    for (key, (place, group)) in keys {
        push_name(key, &mut names);
        let kind = seen.iter().rposition(|seen| seen.is_like(group)).unwrap_or(seen.len());
        if kind == seen.len() {
            seen.push(group);
        }
        let comma = if *place == 0 { "" } else { "," };
        let _ = write!(kinds, "{comma}{}", kind + 1);
    }
    let mut text = format!("SELECT*FROM {schema}.hits({VERSION},E'{{{names}}}','{{{kinds}}}'");
    let lists: [fn(&Group) -> i64; 6] = [
        |group| group.at.map_or(-1, |at| at.as_micros() as i64),
        |group| group.rule.worth(group.total).0 as i64,
        |group| group.rule.worth(group.total).1 as i64,
        |group| group.rule.quota() as i64,
        |group| group.rule.worth(group.rule.capacity()).0 as i64,
        |group| group.rule.worth(group.rule.capacity()).1 as i64,
    ];
    for number in lists {
        text.push_str(",'{");
        for (index, group) in seen.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, "{comma}{}", number(group));
        }
        text.push_str("}'");
    }
    text.push(')');
    text
}

/// Place, whether it was charged, state and time. `None` if that is not a state.
fn parse(row: &SimpleQueryRow) -> Option<(usize, bool, gcra::GcraState, Timestamp)> {
    let number = |index| row.get(index)?.parse::<u64>().ok();
    let place = usize::try_from(number(0)?).ok()?.checked_sub(1)?;
    let (tat, part) = (number(2)?, number(3)?);
    let state = gcra::GcraState { tat: Timestamp::from_micros(tat), part };
    let is_state = tat <= LATEST && part <= LATEST;
    is_state.then_some((place, row.get(1)? == "t", state, Timestamp::from_micros(number(4)?)))
}
