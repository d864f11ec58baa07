//! `families`, `create-family` and `drop-family`: the column families of a database.

use serde_json::{Map, Value, json};
use thermocline::CfOptions;

use crate::args::{CreateFamilyArgs, DbArgs, FamilyArgs};
use crate::commands::point::done;
use crate::fail::{Failure, Outcome};
use crate::output::Output;
use crate::store::{Access, DEFAULT_FAMILY, check_name, family};
use crate::text::{count, insert, name_shown, names_shown};

/// Lists the column families.
pub(crate) fn families(args: &DbArgs, output: &mut Output) -> Outcome {
    let db = args.store.open(&args.db, Access::Read)?;
    let mut all = Vec::new();
    for name in db.column_families() {
        let family = family(&db, &args.db, Some(&name), Access::Read)?;
        let reverse = family.options().reverse == Some(true);
        let metadata = family.metadata()?;
        if output.json {
            let mut object = Map::new();
            object.insert("name".to_string(), Value::from(name));
            object.insert("reverse".to_string(), Value::Bool(reverse));
            if let Some(blob) = metadata {
                insert(&mut object, "metadata", &blob, false);
            }
            all.push(Value::Object(object));
            continue;
        }
        let mut line = name_shown(&name);
        line.push_str(if reverse {
            "\tdescending"
        } else {
            "\tascending"
        });
        if let Some(blob) = metadata {
            let bytes = count(blob.len() as u64, "byte");
            line.push_str(&format!("\t{bytes} of metadata"));
        }
        output.line(&line)?;
    }
    if output.json {
        let number = all.len();
        return output.document(&json!({"families": all, "count": number}));
    }
    Ok(())
}

/// Makes a column family.
pub(crate) fn create(args: &CreateFamilyArgs, output: &mut Output) -> Outcome {
    let mut options = CfOptions::default();
    if args.reverse {
        options = options.reverse(true);
    }
    // Before a database is made: what no family can be called, and what the one can be that it comes with.
    check_name(&args.name)?;
    if args.name == DEFAULT_FAMILY {
        options.check_fixed(&CfOptions::default(), DEFAULT_FAMILY)?;
    }
    let name = Some(args.name.as_str());
    let db = args.store.open_making(&args.db, Access::Create, name)?;
    db.column_family(&args.name, options)?;
    db.close()?;
    done(output)
}

/// Drops a column family.
pub(crate) fn drop(args: &FamilyArgs, output: &mut Output) -> Outcome {
    let db = args.store.open(&args.db, Access::Write)?;
    if db.find_column_family(&args.name).is_none() {
        return Err(Failure::Failed(format!(
            "there is no column family '{}' in {}; it has {}",
            name_shown(&args.name),
            args.db.display(),
            names_shown(&db.column_families())
        )));
    }
    db.drop_column_family(&args.name)?;
    db.close()?;
    done(output)
}
