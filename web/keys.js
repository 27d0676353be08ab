// SPDX-License-Identifier: Apache-2.0
// Keys for everything, and the dialog that lists them.

// [keys as shown, word that explains them]
const KEY_LIST = [
    ['← →', 'k_stage'], ['p n', 'k_stage_any'], ['1 … 9', 'k_number'], ['↑ ↓ ← →', 'k_move'], ['Home End', 'k_ends'],
    ['Enter', 'k_enter'], ['+ - 0', 'k_zoom'], [', .', 'k_heads'], ['[ ]', 'k_layers'], ['w', 'k_words'],
    ['a', 'k_all'], ['Space', 'k_play'], ['t', 'k_transpose'], ['h', 'k_hide'], ['l', 'k_language'],
    ['d', 'k_theme'], ['b', 'k_projector'], ['?', 'k_help'], ['Esc', 'k_close'],
];

// Which action a key stands for; the actions are those of app.js.
const KEY_ACTIONS = {
    ArrowLeft: 'previous', ArrowRight: 'next', p: 'previous', n: 'next', '+': 'zoomIn', '=': 'zoomIn', '-': 'zoomOut', 0: 'fit',
    ',': 'previousHead', '.': 'nextHead', '[': 'previousLayer', ']': 'nextLayer', w: 'words', a: 'allHeads', ' ': 'play',
    t: 'transpose', h: 'hide', l: 'language', d: 'theme', b: 'projector', '?': 'help', Escape: 'escape',
};

function listenForKeys(actions) {
    document.addEventListener('keydown', (event) => {
        const target = event.target, typing = target.matches('input, select, textarea');
        const pressing = event.key === ' ' && target.matches('button, summary, a');
        if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || (typing && event.key !== 'Escape') || pressing) {
            return;
        }
        if (document.querySelector('dialog[open]')) {
            return; // Escape closes it, and nothing behind it moves
        }
        // With a Korean keyboard the letter is not Latin, but the key is the same.
        const latin = /^Key([A-Z])$/.exec(event.code || '');
        const key = event.key.length === 1 && event.key.charCodeAt(0) > 127 && latin ? latin[1].toLowerCase() : event.key;
        if (/^[1-9]$/.test(key)) {
            actions.stage(Number(key) - 1);
        } else if (KEY_ACTIONS[key]) {
            actions[KEY_ACTIONS[key]]();
        } else {
            return;
        }
        event.preventDefault();
    });
}

function helpDialog() {
    const rows = KEY_LIST.map(([keys, word]) => el('tr', {},
        el('th', {scope: 'row'}, ...keys.split(' ').flatMap((key) => [el('kbd', {}, key), ' '])), el('td', {}, say(word))));
    const close = el('button', {type: 'button', class: 'primary', autofocus: ''}, say('close'));
    const dialog = el('dialog', {id: 'help', 'aria-labelledby': 'help-title'}, el('h2', {id: 'help-title'}, say('help_title')),
        el('table.keys', {}, el('tbody', {}, ...rows)),
                      el('p', {}, say('help_colours')), el('p', {}, say('help_offline')), close);
    close.addEventListener('click', () => dialog.close());
    dialog.addEventListener('close', () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
}
