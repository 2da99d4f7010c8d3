export function Logo() {
  return (
    <span class="logo">
      <svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
        <rect width="32" height="32" rx="8" class="logo-back" />
        <path d="M10 24V9h13M10 16h9" fill="none" stroke="#fff" stroke-width="3.4" stroke-linecap="round" stroke-linejoin="round" />
        <circle cx="23" cy="23" r="2.6" fill="#5eead4" />
      </svg>
      <b>Farsteer</b>
    </span>
  );
}
