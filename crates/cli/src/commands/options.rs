//! `options`: all that can be set, what it takes, and what it means.

use serde_json::{Value, json};
use thermocline::options::{ListedOption, Options, Preset};

use crate::args::OptionsArgs;
use crate::fail::{Failure, Outcome};
use crate::output::Output;

/// Lists options.
pub(crate) fn options(args: &OptionsArgs, output: &mut Output) -> Outcome {
    let preset = Preset::parse(&args.preset).map_err(Failure::usage)?;
    let mut all = ListedOption::all(&Options::preset(preset));
    if let Some(name) = &args.name {
        all = named(all, name)?;
    }
    let preset = preset.name();
    if output.json {
        let listed: Vec<Value> = all.iter().map(as_json).collect();
        return output.document(&json!({"preset": preset, "options": listed, "count": all.len()}));
    }
    output.line(&format!(
        "Options of preset {preset} (change them with --set)"
    ))?;
    // Whoever asks for one wants to know all of it.
    let sentences = if all.len() == 1 { usize::MAX } else { 1 };
    for ListedOption {
        name,
        value,
        takes,
        doc,
    } in &all
    {
        let value = value.as_deref().unwrap_or("-");
        output.line(&format!("  {name:<30} {value:<14} {takes}"))?;
        for sentence in doc.split_inclusive(". ").take(sentences) {
            output.line(&format!("    {}", sentence.trim_end()))?;
        }
    }
    Ok(())
}

/// The option of this name; if there is none, those whose names begin so.
fn named(mut all: Vec<ListedOption>, name: &str) -> Outcome<Vec<ListedOption>> {
    let is_one = all.iter().any(|one| one.name == name);
    all.retain(|one| match is_one {
        true => one.name == name,
        false => one.name.starts_with(name),
    });
    match all.is_empty() {
        false => Ok(all),
        true => Err(Failure::Usage(format!(
            "there is no option '{name}', and none whose name begins so"
        ))),
    }
}

fn as_json(one: &ListedOption) -> Value {
    json!({
        "name": one.name,
        "value": one.value,
        "takes": one.takes,
        "doc": one.doc,
    })
}
