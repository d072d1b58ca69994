use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::files::{FileError, read_yaml, write_yaml};

/// `run.yaml`: where the CSVs beside it come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of the file formats of a job's folder.
    pub format: u32,
    /// The model.
    pub model: ModelRecord,
    /// Seed of the search.
    pub seed: u64,
    /// Version of kvtune.
    pub version: String,
    /// The command line.
    pub command: String,
    /// Tokens in the cache that `storage_bits` and `cache_bytes` speak of.
    pub context: usize,
    /// Sequences that `cache_bytes` speaks of.
    pub batch: usize,
    /// What ran, in order.
    pub stages: Vec<StageRecord>,
}

/// Which model a result is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRecord {
    /// As the user named it.
    pub id: String,
    /// Fingerprint of its weights.
    pub sha256: String,
    /// Decoder layers.
    pub layers: usize,
}

/// When a stage ran, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Its name.
    pub stage: String,
    /// Hash of everything that its result depends on.
    pub key: String,
    /// When it began, UTC, as [`utc`] writes it.
    pub started: String,
    /// Seconds it took.
    pub elapsed_s: f64,
    /// Threads that it ran on.
    pub threads: usize,
    /// sha256 of each file that it left, by name.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

impl RunRecord {
    /// The format that this version writes and reads.
    pub const FORMAT: u32 = 1;

    /// Writes the record.
    ///
    /// # Errors
    /// [`FileError::Write`].
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        write_yaml(path, self)
    }

    /// Reads it back.
    ///
    /// # Errors
    /// [`FileError::Read`]; [`FileError::Content`] for another format.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let record: Self = read_yaml(path)?;
        refuse_format(path, record.format, Self::FORMAT)?;
        Ok(record)
    }
}

pub(super) fn refuse_format(path: &Path, found: u32, expected: u32) -> Result<(), FileError> {
    if found == expected {
        return Ok(());
    }
    Err(FileError::content(
        path,
        "",
        format!("format {found}, but this version of kvtune reads format {expected}"),
    ))
}

/// A point in time as `2026-01-31T09:05:00Z`; times before 1970 read as 1970.
pub fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar.
///
/// Counts from March, so that the leap day is a year's last and months follow one formula
/// (Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn record() -> RunRecord {
        RunRecord {
            format: RunRecord::FORMAT,
            model: ModelRecord { id: String::from("m"), sha256: String::from("ab"), layers: 30 },
            seed: 7,
            version: String::from("0.1.0"),
            command: String::from("kvtune calibrate"),
            context: 4096,
            batch: 1,
            stages: vec![StageRecord {
                stage: String::from("trace"),
                key: String::from("cd"),
                started: utc(UNIX_EPOCH),
                elapsed_s: 1.5,
                threads: 2,
                files: BTreeMap::from([(String::from("trace.safetensors"), String::from("ef"))]),
            }],
        }
    }

    #[test]
    fn a_record_reads_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.yaml");
        record().write(&path).expect("written");
        assert_eq!(RunRecord::read(&path).expect("read"), record());
    }

    #[test]
    fn another_format_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.yaml");
        RunRecord { format: 9, ..record() }.write(&path).expect("written");
        let error = RunRecord::read(&path).expect_err("format 9");
        assert!(
            error.to_string().ends_with("format 9, but this version of kvtune reads format 1"),
            "{error}"
        );
    }

    #[test]
    fn days_of_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_796_000_000, "2026-11-30T00:53:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }
}
