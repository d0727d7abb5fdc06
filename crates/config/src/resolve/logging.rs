//! The log flags, checked in etcd's order.

use gocompat::quote_list;
use logging::{Format, Level, LogConfig, Output, Rotation};
use serde_json::Value;

use crate::error::ConfigError;
use crate::flags::Flags;
use crate::json::{as_integer, mismatch};

const DEFAULT: &str = "default";
const STDERR: &str = "stderr";
const STDOUT: &str = "stdout";
const JOURNAL: &str = "systemd/journal";
/// The size at which a file is rotated if `maxsize` is missing or zero.
const ROTATION_SIZE_MB: u64 = 100;

/// Resolves the log flags. The order of the checks is etcd's: only the first error is reported.
pub(crate) fn log_config(flags: &Flags) -> Result<LogConfig, ConfigError> {
    match flags.logger.as_str() {
        "zap" => {}
        "capnslog" => return Err(ConfigError::Capnslog),
        other => return Err(ConfigError::Logger(other.to_owned())),
    }
    let outputs = given_outputs(flags);
    if outputs.len() > 1 && outputs.contains(&DEFAULT) {
        return Err(ConfigError::DefaultOutput);
    }
    let rotation = flags.enable_log_rotation.then(|| rotation(&outputs, flags)).transpose()?;
    if outputs.len() > 1 && outputs.contains(&JOURNAL) {
        return Err(ConfigError::JournalOutput(quote_list(&outputs)));
    }
    let level = parse_level(&flags.log_level)?;
    let format = parse_format(&flags.log_format)?;
    let outputs = outputs.into_iter().map(parse_output).collect();
    Ok(LogConfig { level, format, outputs, rotation })
}

fn given_outputs(flags: &Flags) -> Vec<&str> {
    match flags.log_outputs.as_slice() {
        [] => vec![DEFAULT],
        outputs => outputs.iter().map(String::as_str).collect(),
    }
}

fn parse_level(text: &str) -> Result<Level, ConfigError> {
    match text.to_ascii_lowercase().as_str() {
        "debug" => Ok(Level::Debug),
        "info" | "" => Ok(Level::Info),
        "warn" | "warning" => Ok(Level::Warn),
        "error" => Ok(Level::Error),
        "dpanic" => Ok(Level::DPanic),
        "panic" => Ok(Level::Panic),
        "fatal" => Ok(Level::Fatal),
        _ => Err(ConfigError::LogLevel(text.to_owned())),
    }
}

fn parse_format(text: &str) -> Result<Format, ConfigError> {
    match text {
        "json" | "" => Ok(Format::Json),
        "console" => Ok(Format::Console),
        _ => Err(ConfigError::LogFormat(text.to_owned())),
    }
}

fn parse_output(text: &str) -> Output {
    match text {
        DEFAULT | STDERR => Output::Stderr,
        STDOUT => Output::Stdout,
        JOURNAL => Output::Journal,
        path => Output::File(path.to_owned()),
    }
}

fn rotation(outputs: &[&str], flags: &Flags) -> Result<Rotation, ConfigError> {
    let files = outputs.iter().filter(|output| ![DEFAULT, STDERR, STDOUT].contains(output)).count();
    if files > 1 || (files == 0 && outputs.len() == 1) {
        return Err(ConfigError::RotationOutput);
    }
    parse_rotation(&flags.log_rotation_config_json)
}

fn parse_rotation(text: &str) -> Result<Rotation, ConfigError> {
    let value: Value = serde_json::from_str(text).map_err(|error| syntax_error(text, &error))?;
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => serde_json::Map::new(),
        other => {
            let text = mismatch(&other, "value", "embed.logRotationConfig", false);
            return Err(ConfigError::RotationType(text));
        }
    };
    let (mut rotation, mut size) = (Rotation::default(), 0);
    for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match key.to_ascii_lowercase().as_str() {
            "maxsize" => size = count("maxsize", value)?,
            "maxage" => rotation.age_days_max = count("maxage", value)?,
            "maxbackups" => rotation.backups_max = count("maxbackups", value)?,
            "localtime" => rotation.local_time = boolean("localtime", value)?,
            "compress" => rotation.compress = boolean("compress", value)?,
            _ => {}
        }
    }
    rotation.size_mb_max = if size == 0 { ROTATION_SIZE_MB } else { size };
    Ok(rotation)
}

/// Returns an integer; a negative one counts as zero.
fn count(key: &str, value: &Value) -> Result<u64, ConfigError> {
    let number = as_integer(value).and_then(|number| i64::try_from(number).ok());
    let number = number.ok_or_else(|| rotation_type(key, value, "int"))?;
    Ok(u64::try_from(number).unwrap_or(0))
}

fn boolean(key: &str, value: &Value) -> Result<bool, ConfigError> {
    value.as_bool().ok_or_else(|| rotation_type(key, value, "bool"))
}

fn rotation_type(key: &str, value: &Value, expected_type: &str) -> ConfigError {
    let target = format!("struct field logRotationConfig.Logger.{key}");
    ConfigError::RotationType(mismatch(value, &target, expected_type, expected_type == "int"))
}

/// Translates a syntax error into Go's text where there is one.
fn syntax_error(text: &str, error: &serde_json::Error) -> ConfigError {
    let found = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let found = found.chars().nth(error.column().saturating_sub(1)).unwrap_or('\0');
    let message = error.to_string();
    ConfigError::RotationSyntax(match message.as_str() {
        _ if error.is_eof() => "unexpected end of JSON input".to_owned(),
        message if message.starts_with("expected value") => {
            format!("invalid character '{found}' looking for beginning of value")
        }
        message if message.starts_with("trailing characters") => {
            format!("invalid character '{found}' after top-level value")
        }
        _ => message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(set: impl FnOnce(&mut Flags)) -> Result<LogConfig, String> {
        let mut flags = Flags::new();
        set(&mut flags);
        log_config(&flags).map_err(|rejection| rejection.to_string())
    }

    fn outputs(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn the_default_is_json_to_stderr() {
        assert_eq!(logs(|_| {}), Ok(LogConfig::default()));
        assert_eq!(logs(|flags| flags.log_outputs.clear()), Ok(LogConfig::default()));
    }

    #[test]
    fn outputs_can_be_combined() {
        let logs = logs(|flags| {
            flags.log_outputs = outputs(&["stdout", "b.log", "stderr"]);
            flags.log_format = "console".to_owned();
            flags.log_level = "Warning".to_owned();
        })
        .expect("valid flags");
        let file = Output::File("b.log".to_owned());
        assert_eq!(logs.outputs, [Output::Stdout, file, Output::Stderr]);
        assert_eq!((logs.level, logs.format), (Level::Warn, Format::Console));
    }

    #[test]
    fn rotation_has_lumberjacks_keys() {
        let rotation =
            parse_rotation(r#"{"maxsize": 1, "MaxAge": 2.0, "localtime": true, "x": []}"#);
        let expected = Rotation {
            size_mb_max: 1,
            age_days_max: 2,
            backups_max: 0,
            local_time: true,
            compress: false,
        };
        assert_eq!(rotation, Ok(expected));
        let compressed = parse_rotation(r#"{"maxbackups": 3, "compress": true}"#).unwrap();
        assert_eq!((compressed.backups_max, compressed.compress), (3, true));
        assert_eq!(parse_rotation("{}").map(|rotation| rotation.size_mb_max), Ok(100));
    }

    #[test]
    fn errors_have_etcds_texts() {
        let rotated = |text: &str| {
            let text = text.to_owned();
            logs(|flags| {
                flags.enable_log_rotation = true;
                flags.log_outputs = outputs(&["a.log"]);
                flags.log_rotation_config_json = text;
            })
        };
        let cases = [
            (
                logs(|flags| flags.logger = "capnslog".to_owned()),
                "--logger=capnslog is removed in v3.5",
            ),
            (logs(|flags| flags.logger = "x".to_owned()), r#"unknown logger option "x""#),
            (
                logs(|flags| flags.log_outputs = outputs(&["default", "stderr"])),
                r#"multi logoutput for "default" is not supported yet"#,
            ),
            (
                logs(|flags| flags.log_outputs = outputs(&["stdout", "systemd/journal"])),
                r#"running with systemd/journal but other '--log-outputs' values (["stdout" "systemd/journal"]) are configured with 'default'; override 'default' value with something else"#,
            ),
            (logs(|flags| flags.log_level = "x".to_owned()), r#"unrecognized level: "x""#),
            (
                logs(|flags| flags.log_format = "x".to_owned()),
                "unknown log format: x, supported values json, console",
            ),
            (
                logs(|flags| flags.enable_log_rotation = true),
                "--log-outputs requires a single file path when --log-rotate-config-json is defined",
            ),
            (
                rotated("x"),
                "improperly formatted log rotation config: invalid character 'x' looking for beginning of value",
            ),
            (rotated(""), "improperly formatted log rotation config: unexpected end of JSON input"),
            (
                rotated(r#"{"maxsize":1} x"#),
                "improperly formatted log rotation config: invalid character 'x' after top-level value",
            ),
            (
                rotated(r#"{"maxsize":true}"#),
                "invalid log rotation config: json: cannot unmarshal bool into Go struct field logRotationConfig.Logger.maxsize of type int",
            ),
            (
                rotated(r#"{"maxsize":1.5}"#),
                "invalid log rotation config: json: cannot unmarshal number 1.5 into Go struct field logRotationConfig.Logger.maxsize of type int",
            ),
            (
                rotated("5"),
                "invalid log rotation config: json: cannot unmarshal number into Go value of type embed.logRotationConfig",
            ),
        ];
        for (actual, expected) in cases {
            assert_eq!(actual, Err(expected.to_owned()));
        }
    }
}
