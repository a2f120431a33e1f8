//! The fields of a format that a replay reads, and their meanings.

use crate::format::Format;
use crate::key::KeyPart;
use crate::reading::Reading;
use crate::role::{Role, Unit};

/// The columns of one role, the best name first.
pub(crate) type Columns = Vec<usize>;

/// The columns of a [`Row`](crate::row::Row) by what they are for.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    /// The name of the field in each column.
    pub(crate) names: Vec<String>,
    pub(crate) start: Columns,
    pub(crate) end: Columns,
    pub(crate) duration: Vec<(usize, Unit)>,
    pub(crate) client: Columns,
    pub(crate) forwarded: Columns,
    pub(crate) request: Columns,
    pub(crate) method: Columns,
    pub(crate) path: Columns,
    pub(crate) status: Columns,
    pub(crate) limited: Columns,
    pub(crate) cost: Option<usize>,
    /// The columns of each part of the key.
    pub(crate) key: Vec<Columns>,
    /// The columns of each filter that is not on a role.
    pub(crate) filters: Vec<Columns>,
}

impl Fields {
    /// Finds the fields that this reading needs.
    ///
    /// # Errors
    /// When the format does not have one of them.
    pub(crate) fn resolve(format: &Format, reading: &Reading) -> Result<Fields, String> {
        let mut fields = Fields::default();
        for (role, name) in &reading.fields {
            let column = fields.wanted("field", format, std::slice::from_ref(name))?;
            fields.assign(*role, &column, reading);
        }
        for (name, role) in Role::known() {
            // If the user has named the field of this role, the usual names are not tried.
            let is_said = reading.fields.iter().any(|(said, _)| said.is_like(role));
            if !is_said && needs(reading, role) {
                let column = fields.columns(format, &[name.to_owned()]);
                fields.assign(role, &column, reading);
            }
        }
        if fields.start.is_empty() && fields.end.is_empty() {
            return Err(format!(
                "the format {} has no time; say which field it is: --field start=NAME, or end=NAME if it is written after the response",
                format.name()
            ));
        }
        if reading.client.reads_header()
            && fields.forwarded.is_empty()
            && reading.key.contains(&KeyPart::Ip)
        {
            return Err(format!(
                "trusted proxies: the format {} has no X-Forwarded-For; name its field: --field x_forwarded_for=NAME",
                format.name()
            ));
        }
        if let Some(name) = &reading.cost {
            let columns = fields.wanted("cost", format, std::slice::from_ref(name))?;
            fields.cost = columns.first().copied();
        }
        for part in &reading.key {
            let names = part.field_names();
            let columns =
                if names.is_empty() { Vec::new() } else { fields.wanted("key", format, &names)? };
            fields.key.push(columns);
        }
        for filter in &reading.filters {
            let name = filter.field().to_owned();
            let columns = match Role::named(&name) {
                Some(_) => Vec::new(),
                None => fields.wanted("filter", format, &[name])?,
            };
            fields.filters.push(columns);
        }
        Ok(fields)
    }

    fn assign(&mut self, role: Role, columns: &[usize], reading: &Reading) {
        let of_role = match role {
            Role::Start => &mut self.start,
            Role::End => &mut self.end,
            Role::Duration(unit) => {
                self.duration.extend(columns.iter().map(|column| (*column, unit)));
                return;
            }
            Role::Client => &mut self.client,
            Role::Forwarded if reading.standard_forwarded => return,
            Role::ForwardedStandard if !reading.standard_forwarded => return,
            Role::Forwarded | Role::ForwardedStandard => &mut self.forwarded,
            Role::Request => &mut self.request,
            Role::Method => &mut self.method,
            Role::Path => &mut self.path,
            Role::Status => &mut self.status,
            Role::Limited => &mut self.limited,
        };
        of_role.extend(columns);
    }

    /// The columns of those names that the format has. Lines of JSON may have any.
    fn columns(&mut self, format: &Format, names: &[String]) -> Columns {
        let has =
            |name: &String| format.is_json() || format.field_names().any(|known| known == name);
        let mut columns = Vec::new();
        for name in names.iter().filter(|name| has(name)) {
            columns.push(self.names.iter().position(|known| known == name).unwrap_or_else(|| {
                self.names.push(name.clone());
                self.names.len() - 1
            }));
        }
        columns
    }

    fn wanted(&mut self, what: &str, format: &Format, names: &[String]) -> Result<Columns, String> {
        let columns = self.columns(format, names);
        if columns.is_empty() {
            let known: Vec<_> = format.field_names().collect();
            return Err(format!(
                "{what}: the format {} has no field {:?}; it has {}",
                format.name(),
                names.first().map_or("", String::as_str),
                known.join(", ")
            ));
        }
        Ok(columns)
    }
}

/// Whether a reading uses this role. Fields that no reading uses are not copied.
fn needs(reading: &Reading, role: Role) -> bool {
    let filters =
        |names: &[&str]| reading.filters.iter().any(|filter| names.contains(&filter.field()));
    let has = |part: &KeyPart| reading.key.contains(part);
    match role {
        Role::Start | Role::End | Role::Duration(_) | Role::Status | Role::Limited => true,
        Role::Client => has(&KeyPart::Ip) || filters(&["client"]),
        Role::Forwarded | Role::ForwardedStandard => {
            has(&KeyPart::Ip) || filters(&["x_forwarded_for", "forwarded"])
        }
        Role::Request => {
            has(&KeyPart::Path) || has(&KeyPart::Method) || filters(&["request", "path", "method"])
        }
        Role::Method => has(&KeyPart::Method) || filters(&["method"]),
        Role::Path => has(&KeyPart::Path) || filters(&["path"]),
    }
}
