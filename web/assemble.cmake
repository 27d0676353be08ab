# SPDX-License-Identifier: Apache-2.0
# usage: cmake -D scripts=A.js;B.js -D source=FOLDER -D folder=BUILD_FOLDER -P assemble.cmake
# Joins the scripts without their comments, puts them and the style sheet into page.html, and cuts it at the place of the data into two C
# arrays. The page's content security policy allows exactly these two texts, by their SHA-256. Also writes both halves as files, for the
# tests.

# out = the base64 form of a hexadecimal number of 64 digits (256 bits: ten groups of three bytes, and two bytes)
function(base64_of_sha256 hex out)
    string(SUBSTRING "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" 0 64 digits)
    set(text "")
    foreach(at RANGE 0 60 6)
        string(SUBSTRING "${hex}0000" ${at} 6 group)
        foreach(shift 18 12 6 0)
            math(EXPR digit "(0x${group} >> ${shift}) & 63")
            string(SUBSTRING ${digits} ${digit} 1 letter)
            string(APPEND text ${letter})
        endforeach()
    endforeach()
    string(SUBSTRING "${text}" 0 43 text)
    set(${out} "${text}=" PARENT_SCOPE)
endfunction()

# NAME and NAME_size as C, from a file
function(c_array name file out)
    file(READ "${file}" hex HEX)
    file(SIZE "${file}" size)
    string(REGEX REPLACE "(................................)" "\\1\n" lines "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${lines}")
    set(${out} "const char ${name}[] = {\n${bytes}\n};\nconst size_t ${name}_size = ${size};\n" PARENT_SCOPE)
endfunction()

set(script "\n")
foreach(path IN LISTS scripts)
    file(READ "${path}" part)
    string(REGEX REPLACE "\n *//[^\n]*" "" part "\n${part}") # lines that are nothing but a comment
    string(SUBSTRING "${part}" 1 -1 part)
    string(APPEND script "${part}")
endforeach()
file(READ "${source}/page.css" style)
set(style "\n${style}")
string(SHA256 script_hash "${script}")
string(SHA256 style_hash "${style}")
base64_of_sha256(${script_hash} script_hash)
base64_of_sha256(${style_hash} style_hash)

file(READ "${source}/page.html" page)
string(FIND "${page}" "@data@" cut)
string(SUBSTRING "${page}" 0 ${cut} before)
math(EXPR cut "${cut} + 6")
string(SUBSTRING "${page}" ${cut} -1 after)
string(REPLACE "@script_hash@" "${script_hash}" before "${before}")
string(REPLACE "@style_hash@" "${style_hash}" before "${before}")
string(REPLACE "@style@" "${style}" before "${before}")
string(REPLACE "@script@" "${script}" after "${after}")

file(WRITE "${folder}/page_before.html" "${before}")
file(WRITE "${folder}/page_after.html" "${after}")
c_array(page_before_data "${folder}/page_before.html" before)
c_array(page_after_data "${folder}/page_after.html" after)
file(WRITE "${folder}/page_text.c" "/* Made by web/assemble.cmake. */\n#include \"page.h\"\n\n${before}\n${after}")
