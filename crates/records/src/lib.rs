//! Tables of records: typed columns, a primary key, secondary indexes that change in the same transaction as the rows.
//!
//! | module | what |
//! |---|---|
//! | `field` | values of columns, and their types |
//! | `schema` | a table's description, as code declares it |
//! | `format` | bytes: keys that order as their tuples do, rows, the stored schema |
//! | `layout` | a stored schema made ready for use: checks of arguments, keys of rows and entries |
//! | `range` | ranges of tuples as ranges of bytes |
//! | `store` | the traits that a store must have: [`Reader`], [`Writer`], [`Store`], which the facade implements |
//! | `table` | the handle, and reads; `write`: rows and their entries; `scan`: iterators |
//! | `open` | the steps from the stored schema to the wanted one; `build`: an index for existing rows |
//! | `verify` | whether rows and indexes agree |
//!
//! # Words
//! *Table*: a column family with a schema under its first key. *Row*: one record. *Entry* of an index: the key that leads
//! from indexed values to a row. *Generation*: the number of the stored schema, which each change of it raises. An
//! index is *maintained* if every write of a row keeps it; it is *ready* if each row has its entry.
//!
//! # Invariants
//! 1. At every moment, each row has exactly one entry in each ready index, and each entry has its row.
//! 2. A unique index has at most one row for values without NULL.
//! 3. A row is read with the columns that the handle knows, or not at all.
//!
//! # Why they hold
//! **A write keeps 1 and 2.** It reads the old row for update, so no other transaction changes that row before the
//! commit. Old and new entries follow from old and new row. A unique entry's key is read for update before it is put.
//! Of two transactions that put the same key, one waits or is refused. All puts are in one transaction: a crash
//! leaves all of them or none.
//!
//! **The schema cannot change below a write.** Each write first reads the schema's key *for share*: no other
//! transaction changes it until the commit, or the commit is refused (the lemma of `txn`). A change of the schema
//! reads that key for update. So a transaction with rows lies wholly before the change or wholly behind it. Before
//! it, it has used the old rules. Behind it, it has used the new ones: a handle takes the stored schema if its own
//! copy differs from what it has just read.
//!
//! **Building an index.** First the schema gets the index as *building*. From that commit on each write maintains it;
//! nobody reads it. Then rows are read a few at a time, in key order. Each chunk has a transaction of its own, which
//! reads each row for update and puts its entry. When the last key is passed the index is *ready*. Each row has its
//! entry then. A row written since the first step got it by the write. Any other row has been there all the time, so
//! the pass meets it. To put an entry twice changes nothing. So after a crash the pass begins anew.
//!
//! While a unique index is built, two rows may have the same values, and the entry leads to one of them. So a write
//! takes an entry away only if it leads to its own row. If such a pair is left, either the write or the pass finds
//! the other's entry and is refused; the pass then drops the index. It also drops an index for which the values of a
//! row are too long. Until then such a row has no entry, and a write that changes it takes none away.
//!
//! **Dropping an index.** The schema gets it as *dropping*: nobody reads or writes it from then on. Then one transaction
//! deletes the range of its entries and takes it out of the schema. Only then can its number be given again. That one locks
//! nothing, as it would lock every entry: another one beside it locks the schema's key, and so waits for who has written
//! rows meanwhile. An opening that waits in vain, or may not write or finds no room, and has nothing else to change, leaves that
//! to a later one.
//!
//! **Old moments.** A reader of an index reads the schema at the same moment, and is refused if the index was not
//! ready then.
//!
//! # Adding columns
//! Columns can be added behind the others if they are nullable. A row says how many columns it has; later columns are
//! NULL. A handle that knows fewer columns than the stored schema is refused writes: it would drop values that it
//! does not know.
//!
//! # Rejected
//! - *One column family for all tables.* Dropping a table would leave its bytes to compactions, and tables could not be
//!   divided or tuned by themselves.
//! - *Entries with the row's values.* An update of any column would write every index.
//! - *A version in memory to keep writers and schema apart.* It would need a lock around each transaction; reading a key
//!   for share is that lock, and it works for optimistic transactions, too.
#![forbid(unsafe_code)]

mod build;
mod field;
mod format;
mod layout;
mod open;
mod range;
mod scan;
mod schema;
mod store;
mod table;
mod verify;
mod write;

pub use field::{DECIMAL_SCALE_MAX, Decimal, Field, Row, Type};
pub use scan::{IndexKeys, IndexRows, Rows};
pub use schema::{COLUMNS_MAX, Column, INDEXES_MAX, IndexSchema, NAME_LEN_MAX, Schema};
pub use store::{Reader, Store, Writer};
pub use table::{Index, Table};
pub use verify::{FAULTS_MAX, TableReport};
