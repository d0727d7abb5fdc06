//! Test data made by Go.

/// Passwords with hashes by Go's bcrypt.
pub(crate) const GO_HASHES: [(&str, &str); 5] = [
    ("", "$2a$04$ZxZdW3criATdIsteG5e/QelF3xmkDl7sP8U8W0pThdT.KwHowSzu2"),
    ("secret", "$2a$04$GOlgT5WXH8PnBpMUdcIDPujcHVrCkuulmIYMvx5Ia/jFyD8/wMHnu"),
    ("päßwörd", "$2a$04$uialTpknfk6v9UaTwzb3tevf.LoJ5z7BItGGHI4LSSVVWIlX9FpoK"),
    ("\0\0\0x", "$2a$04$Eyvf/WNqcH667jVdgcURB.KDoUJsFi7LMgR57Myw6fjXtPmesyEuK"),
    (
        "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
        "$2a$04$ufnw.HA2IJ78mAy8sUdQV.YfW1oC16Z9lwfDESpM7MHtILj7ITtYK",
    ),
];

/// Keys in the order in which they were appended, and their positions after Go's sort.
pub(crate) const GO_ORDER: &str = include_str!("../testdata/order.txt");
