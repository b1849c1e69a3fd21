//! The Arrow schema of a table, in which each field states its unit.
//!
//! Readers that use Arrow (pyarrow, pandas, Polars) expect it in the file's metadata as
//! `ARROW:schema`: Base64 of the encapsulated message of Arrow's IPC format, a `FlatBuffers` table
//! (`Schema.fbs` and `Message.fbs` of Apache Arrow). Without it, they derive the fields from the
//! Parquet schema, which does not have room for units.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::schema::types::Type;

/// The key of the file's metadata.
const KEY: &str = "ARROW:schema";

/// The key of a field's metadata.
const UNIT: &str = "unit";

/// `MetadataVersion.V5`, and `MessageHeader.Schema`.
const V5: i16 = 4;
const SCHEMA: u8 = 1;

/// Adds the schema of a table to the metadata `pairs` of its file; `unit` returns the unit of a column, if
/// it has one. Readers take all metadata from there if it exists, so the schema repeats the others. Nothing
/// is added if a column has a type that the tables of aiperf do not use.
pub(in crate::artifacts) fn add(
    pairs: &mut Vec<(String, String)>,
    schema: &Type,
    unit: impl Fn(&str) -> Option<String>,
) {
    let fields = schema.get_fields().iter().map(|column| {
        let field = Field::of(column)?;
        Some(Field { unit: unit(column.name()).filter(|unit| !unit.is_empty()), ..field })
    });
    if let Some(fields) = fields.collect::<Option<Vec<Field>>>() {
        let text = STANDARD.encode(message(&fields, pairs));
        pairs.push((KEY.to_owned(), text));
    }
}

/// A field of the schema.
#[derive(Debug, PartialEq)]
struct Field {
    name: String,
    is_nullable: bool,
    kind: Kind,
    unit: Option<String>,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Int64,
    Float64,
    Bool,
    Utf8,
    List(Box<Field>),
}

impl Kind {
    /// Returns the number of the type in the union `Type`.
    const fn number(&self) -> u8 {
        match self {
            Self::Int64 => 2,
            Self::Float64 => 3,
            Self::Utf8 => 5,
            Self::Bool => 6,
            Self::List(_) => 12,
        }
    }

    /// Returns the members of the type's own table.
    const fn members(&self) -> &'static [Member] {
        match self {
            // 64 bits, signed.
            Self::Int64 => &[Member::I32(64), Member::Byte(1)],
            // `Precision.DOUBLE`
            Self::Float64 => &[Member::I16(2)],
            Self::Bool | Self::Utf8 | Self::List(_) => &[],
        }
    }
}

impl Field {
    fn of(column: &Type) -> Option<Self> {
        let info = column.get_basic_info();
        let kind = if column.is_primitive() {
            match (column.get_physical_type(), info.logical_type_ref()) {
                (PhysicalType::INT64, None) => Kind::Int64,
                (PhysicalType::DOUBLE, None) => Kind::Float64,
                (PhysicalType::BOOLEAN, None) => Kind::Bool,
                (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)) => Kind::Utf8,
                _ => return None,
            }
        } else {
            let element = column.get_fields().first()?.get_fields().first()?;
            Kind::List(Box::new(Self::of(element)?))
        };
        let is_nullable = info.repetition() == Repetition::OPTIONAL;
        Some(Self { name: column.name().to_owned(), is_nullable, kind, unit: None })
    }
}

/// Returns the encapsulated message: a marker, the length of the table, and the table, padded to a
/// multiple of eight bytes.
fn message(fields: &[Field], pairs: &[(String, String)]) -> Vec<u8> {
    let mut buffer = Buffer::default();
    let root = buffer.place();
    buffer.point(root);
    let members = [Member::I16(V5), Member::Byte(SCHEMA), Member::Reference, Member::I64(0)];
    if let [header] = buffer.table(&members)[..] {
        buffer.point(header);
    }
    // Little-endian numbers.
    let members = [Member::I16(0), Member::Reference, Member::Reference];
    if let [list, about] = buffer.table(&members)[..] {
        buffer.point(list);
        buffer.fields(fields.iter());
        buffer.point(about);
        buffer.pairs(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    }
    buffer.align(8);
    let length = u32::try_from(buffer.0.len()).unwrap_or(u32::MAX);
    [&u32::MAX.to_le_bytes()[..], &length.to_le_bytes(), &buffer.0].concat()
}

/// A member of a table, in the order of its declaration.
#[derive(Debug, Clone, Copy)]
enum Member {
    Absent,
    Byte(u8),
    I16(i16),
    I32(i32),
    I64(i64),
    /// The place of a string, a vector or another table, which follows.
    Reference,
}

impl Member {
    const fn size(self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Byte(_) => 1,
            Self::I16(_) => 2,
            Self::I32(_) | Self::Reference => 4,
            Self::I64(_) => 8,
        }
    }
}

/// A `FlatBuffers` buffer, written from the root to the leaves: an object follows what refers to it.
#[derive(Debug, Default)]
struct Buffer(Vec<u8>);

impl Buffer {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Leaves room for the place of an object, and returns where.
    fn place(&mut self) -> usize {
        let at = self.0.len();
        self.put(&[0; 4]);
        at
    }

    /// Lets the reference at `from` point to the object that is written next. A table's position is
    /// known before its own fields are, since it follows its description.
    fn point(&mut self, from: usize) {
        self.align(8);
        self.refer(from, self.0.len());
    }

    fn refer(&mut self, from: usize, to: usize) {
        let distance = u32::try_from(to - from).unwrap_or(u32::MAX);
        if let Some(place) = self.0.get_mut(from..from + 4) {
            place.copy_from_slice(&distance.to_le_bytes());
        }
    }

    /// Writes a table at the current position, which is a multiple of eight, and its description
    /// behind it. Returns where the references are.
    fn table(&mut self, members: &[Member]) -> Vec<usize> {
        let start = self.0.len();
        // The distance to the description, which is subtracted.
        let description = self.place();
        let mut offsets: Vec<u16> = Vec::new();
        let mut references = Vec::new();
        for member in members {
            let size = member.size();
            if size == 0 {
                offsets.push(0);
                continue;
            }
            self.align(size);
            offsets.push(u16::try_from(self.0.len() - start).unwrap_or(u16::MAX));
            match *member {
                Member::Absent => {}
                Member::Byte(value) => self.put(&[value]),
                Member::I16(value) => self.put(&value.to_le_bytes()),
                Member::I32(value) => self.put(&value.to_le_bytes()),
                Member::I64(value) => self.put(&value.to_le_bytes()),
                Member::Reference => references.push(self.place()),
            }
        }
        let size = u16::try_from(self.0.len() - start).unwrap_or(u16::MAX);
        self.align(2);
        let distance = i32::try_from(self.0.len() - start).unwrap_or(i32::MAX);
        if let Some(place) = self.0.get_mut(description..description + 4) {
            place.copy_from_slice(&(-distance).to_le_bytes());
        }
        let own = u16::try_from(4 + 2 * offsets.len()).unwrap_or(u16::MAX);
        for number in [own, size].into_iter().chain(offsets) {
            self.put(&number.to_le_bytes());
        }
        references
    }

    fn text(&mut self, text: &str) {
        self.put(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.put(text.as_bytes());
        self.put(&[0]);
    }

    /// Writes a vector with references, and returns where they are.
    fn vector(&mut self, length: usize) -> Vec<usize> {
        self.put(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        (0..length).map(|_| self.place()).collect()
    }

    fn fields<'a>(&mut self, fields: impl ExactSizeIterator<Item = &'a Field>) {
        let places = self.vector(fields.len());
        for (field, place) in fields.zip(places) {
            self.point(place);
            self.field(field);
        }
    }

    fn field(&mut self, field: &Field) {
        let about = if field.unit.is_some() { Member::Reference } else { Member::Absent };
        let references = self.table(&[
            Member::Reference,
            Member::Byte(field.is_nullable.into()),
            Member::Byte(field.kind.number()),
            Member::Reference,
            // A dictionary.
            Member::Absent,
            Member::Reference,
            about,
        ]);
        let [name, kind, children, about @ ..] = &references[..] else { return };
        self.point(*name);
        self.text(&field.name);
        self.point(*kind);
        self.table(field.kind.members());
        self.point(*children);
        match &field.kind {
            Kind::List(element) => self.fields([&**element].into_iter()),
            _ => self.fields([].into_iter()),
        }
        let (Some(about), Some(unit)) = (about.first(), &field.unit) else { return };
        self.point(*about);
        self.pairs([(UNIT, unit.as_str())].into_iter());
    }

    fn pairs<'a>(&mut self, pairs: impl ExactSizeIterator<Item = (&'a str, &'a str)>) {
        let places = self.vector(pairs.len());
        for ((key, value), place) in pairs.zip(places) {
            self.point(place);
            if let [of_key, of_value] = self.table(&[Member::Reference, Member::Reference])[..] {
                self.point(of_key);
                self.text(key);
                self.point(of_value);
                self.text(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schema of one nullable field of doubles `a` in `ms`, as laid out by hand from the
    /// specification of `FlatBuffers`: see the comments.
    #[test]
    fn a_schema_is_a_flat_buffer() {
        let field = Field {
            name: "a".to_owned(),
            is_nullable: true,
            kind: Kind::Float64,
            unit: Some("ms".to_owned()),
        };
        let bytes = message(&[field], &[("k".to_owned(), "v".to_owned())]);
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
        // Follows a reference, and finds a member of a table by its number.
        let follow = |at: usize| at + u32_at(at) as usize;
        let member = |table: usize, number: usize| {
            let description = table.wrapping_add_signed(-(u32_at(table).cast_signed() as isize));
            let offset = u16_at(description + 4 + 2 * number);
            assert!(usize::from(u16_at(description)) > 4 + 2 * number && offset > 0, "{number}");
            table + usize::from(offset)
        };
        let text = |at: usize| {
            let at = follow(at);
            String::from_utf8(bytes[at + 4..at + 4 + u32_at(at) as usize].to_vec()).unwrap()
        };
        assert_eq!(u32_at(0), u32::MAX);
        assert_eq!((u32_at(4) as usize, bytes.len() % 8), (bytes.len() - 8, 0));
        let root = follow(8);
        assert_eq!((u16_at(member(root, 0)), bytes[member(root, 1)]), (4, 1));
        let schema = follow(member(root, 2));
        let pair_of = |pairs: usize| {
            assert_eq!(u32_at(pairs), 1);
            let pair = follow(pairs + 4);
            (text(member(pair, 0)), text(member(pair, 1)))
        };
        assert_eq!(pair_of(follow(member(schema, 2))), ("k".into(), "v".into()));
        let fields = follow(member(schema, 1));
        assert_eq!(u32_at(fields), 1);
        let own = follow(fields + 4);
        assert_eq!(text(member(own, 0)), "a");
        assert_eq!((bytes[member(own, 1)], bytes[member(own, 2)]), (1, 3));
        assert_eq!(u16_at(member(follow(member(own, 3)), 0)), 2);
        assert_eq!(u32_at(follow(member(own, 5))), 0);
        assert_eq!(pair_of(follow(member(own, 6))), ("unit".into(), "ms".into()));
    }
}
