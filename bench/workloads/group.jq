# SPDX-License-Identifier: MIT
[.[] | {id, name: .user.name, words: (.text | split(" ") | sort | unique | length)}]
| group_by(.words) | map({words: .[0].words, count: length, first: (map(.name) | sort | .[0])})
