//! Every place at which the manifest makes something durable.

thermocline_base::sites! {
    /// An appended edit.
    EDIT_DURABLE = "manifest: edit durable";
    /// A new manifest's header and snapshot, not its name.
    NEW_FILE_DURABLE = "manifest: new file durable";
    /// The file that is about to become `CURRENT`, not its name.
    TEMP_DURABLE = "manifest: CURRENT temp durable";
    /// The names of a new manifest and of the temporary file.
    NEW_NAMES_DURABLE = "manifest: new names durable";
    /// The new `CURRENT`: the old manifest, whose pointer was the switch, is needed no more.
    SWITCH_DURABLE = "manifest: switch durable";
    /// `CURRENT` as an open found it, and its name.
    CURRENT_DURABLE = "manifest: CURRENT durable as it was";
    /// The edits that an open accepted, and the cut behind them.
    ACCEPTED_DURABLE = "manifest: accepted edits durable";
}
