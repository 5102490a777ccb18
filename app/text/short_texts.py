"""Common short texts of greetings and user interfaces, by language: letter statistics alone say little about them.
"Hello" has the letters of a Spanish word.

Includes languages that are often not served, so that their texts are not mistaken for another language's. A word of
several languages is listed with each.
"""

from __future__ import annotations

import re
from collections import defaultdict

MAX_WORDS = 4
"""Longer texts are identified by their letters alone."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")

_TEXTS = {
    "en": """
        hello, hello there, hi, hi there, hey, good morning, good afternoon, good evening, good night, goodbye, bye,
        bye bye, see you, see you soon, see you later, welcome, welcome back, thanks, thank you, many thanks, please,
        sorry, excuse me, yes, no, maybe, ok, okay, sure, of course, well done, good luck, congratulations, cheers,
        happy birthday, merry christmas, how are you, what, who, where, when, why, how, help, stop, wait, go, come,
        good, bad, great, today, tomorrow, yesterday, now, never, always,
        save, save as, cancel, delete, remove, add, edit, copy, paste, cut, undo, redo, open, close, new, search, find,
        replace, send, submit, apply, reset, refresh, reload, retry, try again, continue, next, previous, back, forward,
        finish, done, start, pause, resume, play, quit, exit, print, view, show, hide, more, less, all, none, select,
        select all, upload, download, export, import, share, rename, move, create, update, upgrade, install, enable,
        disable, enabled, disabled, on, off, confirm, accept, decline, ignore, skip, file, folder, files, settings,
        preferences, options, tools, window, menu, home, profile, account, user, users, username, name, password, email,
        address, phone, language, theme, date, time, title, description, details, about, contact, privacy, terms,
        log in, log out, login, logout, sign in, sign out, sign up, register, subscribe, unsubscribe, notifications,
        messages, message, comment, reply, error, warning, success, failed, loading, online, offline, cart, checkout,
        buy, order, price, total, payment, free, required, optional, unknown, hello world
        """,
    "fr": """
        bonjour, salut, coucou, bonsoir, bonne nuit, bonne journée, bonne soirée, au revoir, adieu, à bientôt,
        à demain, à plus tard, bienvenue, merci, merci beaucoup, s'il vous plaît, s'il te plaît, pardon, désolé,
        désolée, excusez-moi, de rien, oui, non, si, peut-être, d'accord, ok, bien sûr, bravo, bonne chance,
        félicitations, santé, bon appétit, bon anniversaire, joyeux noël, comment ça va, ça va, quoi, qui, où, quand,
        pourquoi, comment, aide, au secours, arrêtez, attendez, bien, bon, mal, aujourd'hui, demain, hier, maintenant,
        jamais, toujours,
        enregistrer, sauvegarder, annuler, supprimer, retirer, ajouter, modifier, éditer, copier, coller, couper,
        rétablir, ouvrir, fermer, nouveau, nouvelle, rechercher, recherche, trouver, remplacer, envoyer, valider,
        appliquer, réinitialiser, actualiser, recharger, réessayer, continuer, suivant, précédent, retour, terminer,
        terminé, démarrer, pause, reprendre, lecture, quitter, imprimer, affichage, afficher, masquer, plus, moins,
        tout, tous, aucun, aucune, sélectionner, tout sélectionner, téléverser, télécharger, exporter, importer,
        partager, renommer, déplacer, créer, mettre à jour, installer, activer, désactiver, activé, désactivé,
        confirmer, accepter, refuser, ignorer, passer, fichier, dossier, fichiers, paramètres, préférences, options,
        outils, fenêtre, menu, accueil, profil, compte, utilisateur, utilisateurs, nom d'utilisateur, nom, prénom,
        mot de passe, e-mail, courriel, adresse, téléphone, langue, thème, date, heure, titre, description, détails,
        à propos, contact, confidentialité, conditions, se connecter, connexion, déconnexion, se déconnecter,
        s'inscrire, inscription, s'abonner, notifications, messages, message, commentaire, répondre, erreur,
        avertissement, succès, échec, chargement, en ligne, hors ligne, panier, acheter, commander, commande, prix,
        total, paiement, gratuit, obligatoire, facultatif, inconnu
        """,
    "de": """
        hallo, guten morgen, guten tag, guten abend, gute nacht, moin, servus, grüß gott, auf wiedersehen, tschüss,
        ciao, bis bald, bis später, bis morgen, willkommen, danke, danke schön, vielen dank, bitte, bitte schön,
        entschuldigung, es tut mir leid, tut mir leid, ja, nein, vielleicht, ok, okay, doch, natürlich, klar, prima,
        viel glück, glückwunsch, herzlichen glückwunsch, prost, guten appetit, alles gute, frohe weihnachten,
        wie geht's, wie geht es dir, wie geht es ihnen, was, wer, wo, wann, warum, wie, hilfe, halt, stopp, warte,
        gut, schlecht, heute, morgen, gestern, jetzt, nie, immer,
        speichern, speichern unter, sichern, abbrechen, löschen, entfernen, hinzufügen, bearbeiten, ändern, kopieren,
        einfügen, ausschneiden, rückgängig, wiederholen, öffnen, schließen, neu, suchen, suche, finden, ersetzen,
        senden, absenden, anwenden, übernehmen, zurücksetzen, aktualisieren, neu laden, erneut versuchen, weiter,
        fortfahren, fortsetzen, nächste, vorherige, zurück, vor, vorwärts, fertig, fertigstellen, start, starten,
        pause, abspielen, beenden, drucken, ansicht, anzeigen, ausblenden, mehr, weniger, alle, keine, auswählen,
        alles auswählen, hochladen, herunterladen, download, exportieren, importieren, teilen, umbenennen, verschieben,
        erstellen, anlegen, installieren, aktivieren, deaktivieren, aktiviert, deaktiviert, ein, aus, bestätigen,
        akzeptieren, annehmen, ablehnen, ignorieren, überspringen, datei, ordner, dateien, einstellungen, optionen,
        werkzeuge, extras, fenster, menü, startseite, profil, konto, benutzer, benutzername, name, vorname, nachname,
        passwort, kennwort, e-mail, adresse, telefon, sprache, design, datum, zeit, uhrzeit, titel, beschreibung,
        details, über, kontakt, datenschutz, impressum, anmelden, abmelden, anmeldung, login, registrieren,
        abonnieren, benachrichtigungen, nachrichten, nachricht, kommentar, antworten, fehler, warnung, erfolg,
        fehlgeschlagen, wird geladen, online, offline, warenkorb, kasse, kaufen, bestellen, bestellung, preis, summe,
        gesamt, zahlung, kostenlos, erforderlich, optional, unbekannt
        """,
    "es": """
        hola, buenos días, buenas tardes, buenas noches, buenas, adiós, chao, hasta luego, hasta mañana, hasta pronto,
        nos vemos, bienvenido, bienvenida, bienvenidos, gracias, muchas gracias, por favor, perdón, perdone,
        disculpe, lo siento, de nada, sí, no, quizás, tal vez, ok, vale, claro, por supuesto, bravo, buena suerte,
        suerte, felicidades, enhorabuena, salud, buen provecho, feliz cumpleaños, feliz navidad, cómo estás,
        cómo está, qué tal, qué, quién, dónde, cuándo, por qué, cómo, ayuda, socorro, alto, espera, bien, bueno, mal,
        malo, hoy, mañana, ayer, ahora, nunca, siempre,
        guardar, guardar como, cancelar, eliminar, borrar, quitar, agregar, añadir, editar, modificar, copiar, pegar,
        cortar, deshacer, rehacer, abrir, cerrar, nuevo, nueva, buscar, búsqueda, encontrar, reemplazar, enviar,
        aplicar, restablecer, actualizar, recargar, reintentar, intentar de nuevo, continuar, siguiente, anterior,
        atrás, volver, adelante, finalizar, terminar, listo, hecho, iniciar, inicio, pausa, reanudar, reproducir,
        salir, imprimir, ver, mostrar, ocultar, más, menos, todo, todos, ninguno, seleccionar, seleccionar todo,
        subir, cargar, descargar, exportar, importar, compartir, renombrar, mover, crear, instalar, activar,
        desactivar, habilitar, deshabilitar, activado, desactivado, confirmar, aceptar, rechazar, ignorar, omitir,
        archivo, carpeta, archivos, fichero, ajustes, configuración, preferencias, opciones, herramientas, ventana,
        menú, perfil, cuenta, usuario, usuarios, nombre, nombre de usuario, apellido, contraseña,
        correo electrónico, correo, dirección, teléfono, idioma, tema, fecha, hora, título, descripción, detalles,
        acerca de, contacto, privacidad, términos, iniciar sesión, cerrar sesión, registrarse, suscribirse,
        notificaciones, mensajes, mensaje, comentario, responder, error, advertencia, éxito, cargando, en línea,
        sin conexión, carrito, comprar, pedido, precio, total, pago, gratis, obligatorio, opcional, desconocido
        """,
    "it": """
        ciao, buongiorno, buon giorno, buon pomeriggio, buonasera, buona sera, buonanotte, buona notte, salve,
        arrivederci, addio, a presto, a domani, benvenuto, benvenuti, grazie, grazie mille, prego, per favore,
        per piacere, scusa, scusi, mi dispiace, sì, no, forse, ok, va bene, certo, bravo, buona fortuna, auguri,
        congratulazioni, salute, buon appetito, buon compleanno, buon natale, come stai, come sta, come va, cosa, chi,
        dove, quando, perché, come, aiuto, bene, male, oggi, domani, ieri, adesso, ora, mai, sempre,
        salva, salva con nome, annulla, elimina, rimuovi, aggiungi, modifica, copia, incolla, taglia, ripristina, apri,
        chiudi, nuovo, nuova, cerca, ricerca, trova, sostituisci, invia, applica, reimposta, aggiorna, ricarica,
        riprova, continua, avanti, successivo, precedente, indietro, fine, fatto, avvia, inizia, pausa, riprendi, esci,
        stampa, visualizza, mostra, nascondi, altro, meno, tutto, tutti, nessuno, seleziona, seleziona tutto, carica,
        scarica, download, esporta, importa, condividi, rinomina, sposta, crea, installa, attiva, disattiva, abilita,
        disabilita, conferma, accetta, rifiuta, ignora, salta, file, cartella, impostazioni, preferenze, opzioni,
        strumenti, finestra, menu, profilo, utente, utenti, nome utente, nome, cognome, password, indirizzo, telefono,
        lingua, tema, data, ora, titolo, descrizione, dettagli, informazioni, contatti, accedi, registrati, iscriviti,
        notifiche, messaggi, messaggio, commento, rispondi, errore, avviso, caricamento, online, offline, carrello,
        acquista, ordine, prezzo, totale, pagamento, gratuito, obbligatorio, facoltativo, sconosciuto
        """,
    "pt": """
        olá, oi, bom dia, boa tarde, boa noite, tchau, adeus, até logo, até amanhã, até já, bem-vindo, bem-vinda,
        obrigado, obrigada, muito obrigado, por favor, desculpe, desculpa, com licença, de nada, sim, não, talvez, ok,
        claro, bravo, boa sorte, parabéns, saúde, bom apetite, feliz aniversário, feliz natal, como vai, tudo bem,
        como está, quem, onde, quando, por quê, como, ajuda, socorro, bem, bom, mau, hoje, amanhã, ontem, agora,
        nunca, sempre,
        salvar, guardar, cancelar, excluir, eliminar, apagar, remover, adicionar, editar, copiar, colar, cortar,
        desfazer, refazer, abrir, fechar, novo, nova, pesquisar, buscar, procurar, substituir, enviar, aplicar,
        redefinir, atualizar, recarregar, tentar novamente, continuar, próximo, seguinte, anterior, voltar, concluir,
        concluído, iniciar, início, pausa, pausar, sair, imprimir, ver, mostrar, ocultar, mais, menos, tudo, todos,
        nenhum, selecionar, selecionar tudo, carregar, baixar, transferir, exportar, importar, compartilhar,
        partilhar, renomear, mover, criar, instalar, ativar, desativar, habilitar, confirmar, aceitar, recusar,
        ignorar, arquivo, ficheiro, pasta, arquivos, configurações, definições, preferências, opções, ferramentas,
        janela, menu, perfil, conta, usuário, utilizador, nome, nome de usuário, senha, palavra-passe, e-mail,
        endereço, telefone, idioma, tema, data, hora, título, descrição, detalhes, sobre, contato, privacidade, termos,
        entrar, notificações, mensagens, mensagem, comentário, responder, erro, aviso, sucesso, carregando, carrinho,
        comprar, pedido, preço, total, pagamento, grátis, obrigatório, opcional, desconhecido
        """,
    "nl": """
        hallo, hoi, goedemorgen, goedemiddag, goedenavond, goedenacht, welterusten, tot ziens, doei, dag, tot straks,
        tot morgen, welkom, bedankt, dank je, dank u, dank je wel, alsjeblieft, alstublieft, sorry, pardon, ja, nee,
        misschien, ok, oké, natuurlijk, veel succes, gefeliciteerd, proost, eet smakelijk, hoe gaat het, wat, wie,
        waar, wanneer, waarom, hoe, hulp, help, goed, slecht, vandaag, morgen, gisteren, nu, nooit, altijd,
        opslaan, bewaren, opslaan als, annuleren, verwijderen, wissen, toevoegen, bewerken, wijzigen, kopiëren, plakken,
        knippen, ongedaan maken, openen, sluiten, nieuw, nieuwe, zoeken, vinden, vervangen, verzenden, versturen,
        toepassen, vernieuwen, herladen, opnieuw proberen, doorgaan, volgende, vorige, terug, verder, voltooien, klaar,
        start, starten, pauze, hervatten, afspelen, afsluiten, afdrukken, weergave, tonen, verbergen, meer, minder,
        alle, alles, geen, selecteren, alles selecteren, uploaden, downloaden, exporteren, importeren, delen, hernoemen,
        verplaatsen, maken, aanmaken, bijwerken, installeren, inschakelen, uitschakelen, aan, uit, bevestigen,
        accepteren, weigeren, negeren, overslaan, bestand, map, bestanden, instellingen, voorkeuren, opties, extra,
        venster, menu, startpagina, profiel, account, gebruiker, gebruikers, gebruikersnaam, naam, wachtwoord, e-mail,
        adres, telefoon, taal, thema, datum, tijd, titel, beschrijving, details, over, contact, aanmelden, afmelden,
        inloggen, uitloggen, registreren, meldingen, berichten, bericht, reactie, antwoorden, fout, waarschuwing,
        gelukt, mislukt, laden, online, offline, winkelwagen, kopen, bestellen, bestelling, prijs, totaal, betaling,
        gratis, verplicht, optioneel, onbekend
        """,
}


def _languages_of_texts() -> dict[str, frozenset[str]]:
    found = defaultdict[str, set[str]](set)
    for language, texts in _TEXTS.items():
        for text in texts.split(","):
            found[" ".join(text.split())].add(language)
    return {text: frozenset(languages) for text, languages in found.items()}


_LANGUAGES_BY_TEXT = _languages_of_texts()
"""The languages of each text, keyed by the text in lower case."""


def listed_shares(text: str) -> dict[str, float]:
    """The languages in which `text` is listed here, each with the share of its words that are listed.

    Ignores case and punctuation. Empty for unknown or long texts.
    """
    words = [word.replace("’", "'") for word in _WORD.findall(text[:100].casefold())]
    if not words or len(words) > MAX_WORDS:
        return {}
    if whole := _LANGUAGES_BY_TEXT.get(" ".join(words)):
        return dict.fromkeys(whole, 1.0)
    shares = defaultdict[str, float](float)
    for word in words:
        for language in _LANGUAGES_BY_TEXT.get(word, ()):
            shares[language] += 1 / len(words)
    return shares
