# Lines, completed words, bytes and the window's size, through the console.
console-test
