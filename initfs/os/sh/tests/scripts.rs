//! Runs whole scripts with the real binary on the development machine and compares output and
//! status. The scripts use only programs that every machine has (cat, sleep, seq, wc, head, true).

mod shell;

use shell::shell;

/// The script, its output and its status.
const SCRIPTS: &[(&str, &str, i32)] = &[
    (
        "echo hello   world; echo \"a  b\" 'c  d'",
        "hello world\na  b c  d\n",
        0,
    ),
    ("x=5; y=$((x * 2)); echo $x$y ${x}0 $?", "510 50 0\n", 0),
    (
        "false; echo $?; true; echo $?; ! true; echo $?",
        "1\n0\n1\n",
        0,
    ),
    (
        "false || echo or; true && echo and; false && echo no; echo $?",
        "or\nand\n1\n",
        0,
    ),
    (
        "if false; then echo a; elif true; then echo b; else echo c; fi",
        "b\n",
        0,
    ),
    (
        "i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done",
        "0\n1\n2\n",
        0,
    ),
    (
        "i=3; until [ $i = 0 ]; do i=$((i-1)); [ $i = 1 ] && continue; echo $i; done",
        "2\n0\n",
        0,
    ),
    (
        "for x in a 'b c' d; do [ \"$x\" = d ] && break; echo \"<$x>\"; done",
        "<a>\n<b c>\n",
        0,
    ),
    (
        "for i in 1 2; do for j in 1 2; do [ $j = 2 ] && continue 2; echo $i$j; done; done",
        "11\n21\n",
        0,
    ),
    (
        "case abc in x) echo 1;; a*|y) echo 2;; *) echo 3;; esac",
        "2\n",
        0,
    ),
    (
        "for w in é 7 - ] _; do\ncase $w in [[:alpha:]]) echo letter;; [![:alnum:]_]) echo sign;; \
         *) echo $w;; esac; done",
        "letter\n7\nsign\nsign\n_\n",
        0,
    ),
    (
        "v=12ab; echo ${v##*[[:digit:]]} ${v%%[[:alpha:]]*} ${v%[[:digit:]]}",
        "ab 12 12ab\n",
        0,
    ),
    (
        "f() { echo \"$# $1\"; return 3; }; f a b; echo $?",
        "2 a\n3\n",
        0,
    ),
    (
        "f() { local x=in; y=in; echo $x; }; x=out y=out; f; echo $x $y",
        "in\nout in\n",
        0,
    ),
    (
        "fact() { if [ $1 -le 1 ]; then echo 1; else echo $(( $1 * $(fact $(($1 - 1))) )); fi; \
         }\nfact 10",
        "3628800\n",
        0,
    ),
    ("echo one two | cat | wc -w | cat", "2\n", 0),
    ("seq 1 100000 | tail -n 1", "100000\n", 0),
    ("x=$(seq 1 30000 | wc -l); echo $x", "30000\n", 0),
    (
        "x=$(for i in $(seq 1 20000); do echo $i; done | wc -l); echo $x",
        "20000\n",
        0,
    ),
    (
        "{ echo a; echo b; } | { read x; read y; echo $y$x; }",
        "ba\n",
        0,
    ),
    (
        "echo a | while read x; do echo \"got $x\"; done | cat",
        "got a\n",
        0,
    ),
    (
        "v=1; (v=2; cd /; echo $v); echo $v; [ \"$PWD\" != / ] && echo back",
        "2\n1\nback\n",
        0,
    ),
    ("(exit 7); echo $?; (false; exit); echo $?", "7\n1\n", 0),
    ("exit 42", "", 42),
    (
        "true | false | true; echo $?; set -o pipefail; true | false | true; echo $?",
        "0\n1\n",
        0,
    ),
    (
        "echo err >&2 2>/dev/null; { echo e >&2; echo o; } 2>&1 | cat",
        "e\no\n",
        0,
    ),
    ("x=$( { echo a; echo b >&2; } 2>&1 ); echo $x", "a b\n", 0),
    (
        "x=$(cat /none/such 2>/dev/null || echo failed); echo $x",
        "failed\n",
        0,
    ),
    (
        "set -e; false || true; if false; then :; fi; ! true; echo on; false; echo never",
        "on\n",
        1,
    ),
    ("set -e; x=$(false); echo never", "", 1),
    (
        "set -e; f() { false; echo in; }; if f; then echo yes; fi; f; echo never",
        "in\nyes\n",
        1,
    ),
    (
        "set -- a b c; echo $# $2; shift; echo $1 \"$@\"",
        "3 b\nb b c\n",
        0,
    ),
    (
        "cat <<EOF\nx is $((1+1)) $HOME_NONE\n\\$x \"q\"\nEOF\necho after",
        "x is 2 \n$x \"q\"\nafter\n",
        0,
    ),
    ("cat <<'EOF' | cat\n$x `y`\nEOF", "$x `y`\n", 0),
    ("cat <<-EOF\n\t\tindented\n\tEOF", "indented\n", 0),
    ("cat <<EOF\nEOF\necho empty", "empty\n", 0),
    ("cat <<<\"a string\"", "a string\n", 0),
    (
        "sleep 0.2 & a=$!; sleep 0.1 & wait $!; wait $a; echo $?",
        "0\n",
        0,
    ),
    (
        "(exit 5) & wait $!; echo $?; wait 99999999; echo $?",
        "5\n127\n",
        0,
    ),
    (
        "for i in 1 2 3 4; do { sleep 0.1; echo x; } & done; wait; echo done",
        "x\nx\nx\nx\ndone\n",
        0,
    ),
    (
        "v=secret; f() { echo f$1 $v; }; f 1 & wait; { f 2; } | cat",
        "f1 secret\nf2 secret\n",
        0,
    ),
    (
        "a=$$; (echo $(( $$ == a ))); [ $$ = $(echo $$) ] && echo same; f() { echo $$; }; [ $$ \
         = $(f | cat) ] && echo too",
        "1\nsame\ntoo\n",
        0,
    ),
    ("cat /dev/null & cat | cat; echo end", "end\n", 0),
    (
        "sleep 30 & kill $!; wait $!; echo $?; sleep 30 & kill -9 %1; wait %1; echo $?",
        "143\n137\n",
        0,
    ),
    (
        "sleep 30 & kill -s TERM -- $!; wait $!; echo $?",
        "143\n",
        0,
    ),
    (
        "echo 'a b  c' | { read x y; echo \"$x|$y\"; }",
        "a|b  c\n",
        0,
    ),
    (
        "printf 'a:b::c\\n' | { IFS=: read w x y z; echo \"$w|$x|$y|$z\"; }",
        "a|b||c\n",
        0,
    ),
    (
        "printf 'a\\\\tb\\n' | { read -r x; echo \"$x\"; }",
        "a\\tb\n",
        0,
    ),
    ("read x </dev/null; echo $?", "1\n", 0),
    (
        "X=1 sh_none=2; echo $X; X=3 cat /dev/null; echo $X; X=4 env | grep ^X=",
        "1\n1\nX=4\n",
        0,
    ),
    ("export A=1; B=2; env | grep -c '^[AB]='", "1\n", 0),
    (
        "unset x; echo ${x-unset} ${x:=set} $x; readonly x; (x=2) 2>/dev/null; echo $x",
        "unset set set\nset\n",
        0,
    ),
    (
        "eval 'x=1; echo $x'; eval echo '$x' \\; echo done",
        "1\n1\ndone\n",
        0,
    ),
    ("trap 'echo bye $?' EXIT; echo hi; exit 3", "hi\nbye 3\n", 3),
    (
        "(trap 'echo inner' EXIT; echo in); echo out",
        "in\ninner\nout\n",
        0,
    ),
    (
        "type true if nosuch; command -v cat >/dev/null && echo found",
        "true is a builtin\nif is a reserved word\nnosuch: not found\nfound\n",
        0,
    ),
    (
        "exec 3</dev/null; cat <&3; exec 3<&-; echo x >&3; echo $?",
        "1\n",
        0,
    ),
    (
        "exec 2>&1; echo visible >&2; nosuchprogram; echo $?",
        "visible\nsh: line 1: nosuchprogram: not found\n127\n",
        0,
    ),
    (
        "exec 2>&1\n\n/; echo $?\n/none; echo $?",
        "sh: line 3: /: Is a directory\n126\nsh: line 4: /none: No such file or directory\n127\n",
        0,
    ),
    (
        "exec 2>&1; cat </none; echo $?; echo x >/none/x; echo $?",
        "sh: line 1: /none: No such file or directory\n1\nsh: line 1: /none/x: No such file or \
         directory\n1\n",
        0,
    ),
    (
        "exec 2>&1; [ a -eq 1 ]; echo $?; [ a; echo $?; test; echo $?",
        "sh: line 1: [: `a` is not an integer\n2\nsh: line 1: [: `]` is missing\n2\n1\n",
        0,
    ),
    (
        "exec 2>&1; set -u; echo $none; echo never",
        "sh: line 1: none: is not set\n",
        1,
    ),
    (
        "exec 2>&1; echo $((1/0)); echo never",
        "sh: line 1: arithmetic: division by zero in `1/0`\n",
        1,
    ),
    (
        "exec 2>&1; echo a\nif x\ndone",
        "a\nsh: line 3: syntax error: unexpected `done`: `if` of line 2 expects `then`\n",
        2,
    ),
    (
        "exec 2>&1; set -x; x='a b'; echo $x \"$x\" | cat",
        "+ x='a b'\n+ cat\n+ echo a b 'a b'\na b a b\n",
        0,
    ),
    (
        "exec 2>&1; f() { f; }; f; echo never",
        "sh: line 1: commands are nested deeper than 100 levels\n",
        2,
    ),
    (
        "exec 2>&1; break; echo on",
        "sh: line 1: break: there is no loop here\non\n",
        0,
    ),
    (
        "exec 2>&1; cd /none; echo $?; cd /; pwd; cd - >/dev/null; [ $PWD = / ] || echo back",
        "sh: line 1: cd: /none: No such file or directory\n1\n/\nback\n",
        0,
    ),
    ("exec cat <<<hi; echo never", "hi\n", 0),
    (
        "(exec cat <<<a); echo $(exec cat <<<b); exec nosuch 2>/dev/null; echo never",
        "a\nb\n",
        127,
    ),
    (
        "sleep 30 >/dev/null & kill $!; wait $!; echo $?",
        "143\n",
        0,
    ),
    ("trap 'echo bye' EXIT; cat <<<hi", "hi\nbye\n", 0),
    (
        "{ exec 3</dev/null; } 2>/dev/null; cat <&3; echo $?; exec 4</none || echo no",
        "0\nno\n",
        0,
    ),
    (
        "x='*'; echo \"$x\" '*'; cd /; echo /de[v]; echo /no*ne",
        "* *\n/dev\n/no*ne\n",
        0,
    ),
    ("echo `echo a \\`echo b\\``", "a b\n", 0),
    ("time true 2>/dev/null; echo $?", "0\n", 0),
    (
        "seq 3 | while read n; do echo $n; seq 2 >/dev/null; done",
        "1\n2\n3\n",
        0,
    ),
    ("echo a#b #c\n# whole line\necho \\# '#'", "a#b\n# #\n", 0),
    ("echo a \\\n  b", "a b\n", 0),
    (
        "false | true && echo x; true | false || echo y",
        "x\ny\n",
        0,
    ),
    ("yes | head -n 1", "y\n", 0),
    (
        "i=0; while :; do i=$((i+1)); [ $i -ge 500 ] && break; done; echo $i",
        "500\n",
        0,
    ),
    (
        "set -e; x=; if :; then [ -n \"$x\" ] && echo; fi; echo ok",
        "ok\n",
        0,
    ),
    (
        "set -e; { false && :; }; case a in a) false && :;; esac; for i in 1; do false && :; \
         done; echo ok",
        "ok\n",
        0,
    ),
    (
        "set -e; i=; while [ -z \"$i\" ]; do i=1; false && :; done; echo ok",
        "ok\n",
        0,
    ),
    ("set -e; (false && :); echo never", "", 1),
    ("set -e; { :; } </none 2>/dev/null; echo never", "", 1),
    (
        "set -e; if { :; } </none 2>/dev/null; then :; fi; { :; } </none 2>/dev/null || echo \
         on; { false; }; echo never",
        "on\n",
        1,
    ),
    ("set -e; f() { false && :; }; f; echo never", "", 1),
    (
        "unset x; set -- ${x:-} ${x-} ${x:+} ${x+a}; echo $#; set -- \"${x:-}\" ${x-''} \
         \"${x+}\"; echo $#",
        "0\n3\n",
        0,
    ),
    (
        "unset x; y=${x:-}; echo \"<$y>\"; { set -- a${x-}b ${x:-}; echo $# $1; } | cat",
        "<>\n1 ab\n",
        0,
    ),
    (
        "unset x; set -- \"${x:-\"a b\"}\" \"${x-\"}\"}\" \"${x-c\"d\"e'f'}\"; printf '<%s>' \
         \"$#\" \"$@\"",
        "<3><a b><}><cde'f'>",
        0,
    ),
    (
        "unset x; cat <<E\n${x-\"a b\"} ${x-\"}\"} \"q\"\nE",
        "a b } \"q\"\n",
        0,
    ),
    (
        "unset x y; { printf '<%s>' \"${x-\"${y-\"a  b\"}\"}\" \"${x-\"\\}\\\"\"}\" \
         \"${x-\"\"}\"; } | cat",
        "<a  b><}\"><>",
        0,
    ),
    ("trap 'echo bye; exit' EXIT; exit 3", "bye\n", 3),
    ("trap 'false; exit' EXIT; (exit 4)", "", 4),
    ("trap '(exit 6); exit 5' EXIT; exit 3", "", 5),
    ("trap '(false; exit); echo $?' EXIT; exit 3", "1\n", 3),
    (
        "trap 'echo bye' INT TERM EXIT 2>/dev/null; echo $?; trap - INT TERM; echo $?",
        "1\n0\nbye\n",
        0,
    ),
    (
        "trap -- 'echo bye' EXIT; trap; trap EXIT; trap",
        "trap -- 'echo bye' EXIT\n",
        0,
    ),
    ("trap 'echo bye' 0; trap 0; trap", "", 0),
    ("printf 'a b' | { read x y; echo $? $x $y; }", "1 a b\n", 0),
    (
        "printf 'a\\nb' | while read x || [ \"$x\" ]; do echo $x; x=; done",
        "a\nb\n",
        0,
    ),
    (
        "printf 'a:b:\\n' | { IFS=: read x y; echo $x $y; }",
        "a b\n",
        0,
    ),
    (
        "printf 'a:b:c:\\na:b::\\na:b : \\na:\\n' | { IFS=': ' ; while read x y; do echo \
         \"<$x|$y>\"; done; }",
        "<a|b:c:>\n<a|b::>\n<a|b>\n<a|>\n",
        0,
    ),
    (
        "printf 'a:\\n::\\n\\n' | { IFS=: ; while read x; do echo \"<$x>\"; done; }",
        "<a>\n<::>\n<>\n",
        0,
    ),
    (
        "HOME=/h; x=a; x=$x:~/bin:~; echo $x; y=~:b:~/c; echo $y",
        "a:/h/bin:/h\n/h:b:/h/c\n",
        0,
    ),
    (
        "HOME=/h; x=\"a:~\":'~':\\~; echo $x a:~ ~\"/b\" ~x; y=~''; echo $y",
        "a:~:~:~ a:~ ~/b ~x\n~\n",
        0,
    ),
    ("HOME=/h; X=a:~/b env | grep ^X=", "X=a:/h/b\n", 0),
    (
        "a=$PPID; [ \"$PPID\" -gt 0 ] && [ $a = $(echo $PPID) ] && { [ $a = $PPID ] && echo \
         same; } | cat",
        "same\n",
        0,
    ),
    (
        "set -- -a -bx -cb y -- z; while getopts ab:c o; do echo $o $OPTARG $OPTIND; done; \
         echo $o $OPTIND; shift $((OPTIND - 1)); echo $*",
        "a 2\nb x 3\nc 3\nb y 5\n? 6\nz\n",
        0,
    ),
    (
        "f() { while getopts :a:b o \"$@\"; do echo \"$o<$OPTARG>\"; done; OPTIND=1; }; f -x \
         -a; f -b w -a; f -; getopts a o; echo $o$?",
        "?<x>\n:<a>\nb<>\n?1\n",
        0,
    ),
    (
        "getopts ab o -ab; (getopts ab o -ab; echo $o); getopts ab o -ab; echo $o; getopts ab \
         o -q 2>/dev/null; echo $? $o",
        "b\nb\n1 ?\n",
        0,
    ),
    (
        "command -V true | { read a b; echo $a; }; command -V no-such >/dev/null 2>&1 || echo \
         none; command -- echo a",
        "true\nnone\na\n",
        0,
    ),
    (
        "cd -P -- /; pwd; cd -L /dev; pwd; cd - ; cd -- /dev && pwd",
        "/\n/dev\n/\n/dev\n",
        0,
    ),
    (
        "set -a; x=1; read y </dev/null; env | grep ^x=; case $- in *a*) echo a;; esac; set \
         +a; z=1; env | grep ^z=",
        "x=1\na\n",
        1,
    ),
    ("echo a; set -n; echo b", "a\n", 0),
];

#[test]
fn scripts_give_the_output_and_status_expected() {
    shell::check(SCRIPTS);
}

#[test]
fn commands_come_from_standard_input() {
    let result = shell(
        &[],
        "echo a\nread x\nline for read\necho $x\nif true\nthen echo c\nfi\nexit 4\n",
    );
    assert_eq!(
        String::from_utf8_lossy(&result.stdout),
        "a\nline for read\nc\n"
    );
    assert_eq!(result.status.code(), Some(4));
    let result = shell(&["-s"], "echo a; if true\n");
    assert_eq!(result.status.code(), Some(2));
}

#[test]
fn a_long_function_may_come_from_standard_input() {
    // The shell must notice the end of a command at once, without parsing all at each line: the
    // lines behind a command belong to what it reads.
    let here = "cat <<E\ntext\nE\nif :\nthen :\nfi\n".repeat(300);
    let script = format!(
        "f() {{\n{here}cat <<E\n}}\nE\necho \"\n}}\"\n}}\nf\nif :\nthen :\nf\\\ni\n\
         {{ read x\n}}\nend\necho $x\n{{\n:\n"
    );
    let result = shell(&[], &script);
    let text = String::from_utf8_lossy(&result.stdout);
    assert_eq!(text, "text\n".repeat(300) + "}\n\n}\nend\n");
    assert_eq!(result.status.code(), Some(2));
}

#[test]
fn an_interactive_shell_prompts_and_goes_on_after_errors() {
    let result = shell(
        &["-i"],
        "PS1='<$?> '\nfalse\necho ${none?gone}\n)\nif true\nthen echo yes\nfi\nsleep 0 &\nwait\n",
    );
    assert_eq!(String::from_utf8_lossy(&result.stdout), "yes\n");
    let errors = String::from_utf8_lossy(&result.stderr);
    for expected in [
        "# <0> <1> sh: none: gone\n",
        "<1> sh: syntax error: unexpected `)`\n<2> > > ",
        "[1] ",
        "exit\n",
    ] {
        assert!(
            errors.contains(expected),
            "{expected:?} is not in {errors:?}"
        );
    }
}

#[test]
fn scripts_run_from_files_also_without_an_interpreter_line() {
    let directory = std::env::temp_dir().join(format!("sh-test-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = |name: &str| directory.join(name).display().to_string();
    std::fs::write(path("plain"), "echo $0 $1; exit 3\n").unwrap();
    std::fs::write(path("hash"), "#!/bin/cat\nbody\n").unwrap();
    std::fs::write(path("data"), [0, 1, 2]).unwrap();
    std::fs::write(path("lib"), "value=$1; return 5; echo never").unwrap();
    let result = shell(&[&path("plain"), "arg"], "");
    assert_eq!(
        String::from_utf8_lossy(&result.stdout),
        format!("{} arg\n", path("plain"))
    );
    assert_eq!(result.status.code(), Some(3));
    let script = format!(
        "PATH=$PATH:{}; plain x; echo $?; hash | tail -n 1; data 2>/dev/null; echo $?; . lib \
         v; echo $? $value",
        directory.display()
    );
    let result = shell(&["-c", &script], "");
    let expected = format!("{} x\n3\nbody\n126\n5 v\n", path("plain"));
    assert_eq!(String::from_utf8_lossy(&result.stdout), expected);
    let result = shell(&[&path("missing")], "");
    assert_eq!(result.status.code(), Some(127));
    std::fs::remove_dir_all(&directory).unwrap();
}
