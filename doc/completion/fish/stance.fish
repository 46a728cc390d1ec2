# SPDX-License-Identifier: Apache-2.0
#
# Completion of stance for fish. The words come from the program itself: `stance completion words`
# prints ":files", ":folders" or ":words", for what the shell shall add, and then a word a line, with a
# tab and its meaning behind it.

function __stance_words
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($before[1] completion words -- $before[2..-1] "$current" 2>/dev/null)
    set -l part (string replace -r '^.*[=:]' '' -- "$current")
    for line in $lines
        switch $line
            case ':files'
                __fish_complete_path "$part" | string replace -r '^' -- (string replace -r '[^=:]*$' '' -- "$current")
            case ':folders'
                __fish_complete_directories "$part" | string replace -r '^' -- (string replace -r '[^=:]*$' '' -- "$current")
            case ':*'
            case '*'
                echo $line
        end
    end
end

complete -c stance -f -a '(__stance_words)'
